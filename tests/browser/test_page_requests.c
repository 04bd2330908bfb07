/* What the page asks and how: going on, chats, all fields, busy servers, and what it hands over. */
#include "base/memory.h"
#include "tests/browser/page.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_text(Page *p, int column, const char *wanted) {
    char *text = page_column_text(p, column);
    CHECK_MSG(*wanted && !strcmp(text, wanted), "column %d: \"%s\", not \"%s\"", column, text, wanted);
    free(text);
}

/* From here on window.asked has the completions that are asked for. */
static const char record[] =
    "const real = fetch; window.asked = []; window.fetch = (to, options) => { "
    "if (/completions/.test(to)) asked.push(JSON.parse(options.body)); return real(to, options); }";

static const char longer_fields[] =
    "\"prompt\":\"The river\",\"max_tokens\":40,\"seed\":3,\"temperature\":0.5,\"noise_scale\":1";

TEST(page_goes_on_with_a_text) {
    Page p;
    REQUIRE(page_open(&p, "weights/demo", NULL, PAGE_SHORT "&noise_seeds=5,6&asked=1"));
    page_wait_done(&p, 2);
    page_run(&p, record);
    browser_click(&p.browser, "[aria-label='Go on with column 2']");
    browser_wait(&p.browser, "/^40 tokens, /.test(document.querySelectorAll('.foot')[1].textContent)");
    page_check_column(&p, 1, page_short_fields, 5);
    page_check_column(&p, 2, longer_fields, 6);
    char *asked = browser_text(&p.browser, "return JSON.stringify(asked.map(a => a.stream_from))");
    CHECK_MSG(!strcmp(asked, "[20]"), "%s", asked);
    free(asked);
    char *link = browser_text(&p.browser, "return location.href");
    browser_open(&p.browser, "about:blank");
    browser_open(&p.browser, link);
    page_wait_done(&p, 2);
    page_check_column(&p, 2, longer_fields, 6);
    free(link);
    page_close(&p, false);
}

/* The stream of both columns is cut behind nine events. An error would take what is not read yet with it, so it comes
 * when the reader asks for more. window.said has all that the columns ever said. */
static const char cut[] =
    "const real = fetch; window.asked = []; window.said = '';"
    "const answers = document.getElementById('answers');"
    "new MutationObserver(() => { said += answers.textContent; }).observe(answers, {subtree: true, childList: true});"
    "window.fetch = async (to, options) => {"
    "  const answer = await real(to, options);"
    "  if (!/completions/.test(to)) return answer;"
    "  asked.push(JSON.parse(options.body));"
    "  if (asked.length > 1) return answer;"
    "  const reader = answer.body.getReader(), decoder = new TextDecoder(), encoder = new TextEncoder();"
    "  let events = [], passed = 0, text = '';"
    "  return new Response(new ReadableStream({async pull(to) {"
    "    if (passed === 9) { reader.cancel(); return to.error(new TypeError('cut')); }"
    "    while (!events.length) {"
    "      const {value} = await reader.read();"
    "      text += decoder.decode(value, {stream: true});"
    "      events = text.split('\\n\\n'); text = events.pop();"
    "    }"
    "    to.enqueue(encoder.encode(events.shift() + '\\n\\n')); passed++;"
    "  }}));"
    "}";

TEST(page_goes_on_where_a_stream_broke_off) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SLOW), NULL,
                      "#prompt=The&max_tokens=60&seed=3&noise_scale=1&repetition_penalty=1&noise_seeds=1,2"));
    browser_wait(&p.browser, "document.title !== 'noised'");
    page_run(&p, cut);
    browser_click(&p.browser, "#run");
    page_wait_done(&p, 2);
    for (int i = 1; i <= 2; i++)
        page_check_column(&p, i, "\"prompt\":\"The\",\"max_tokens\":60,\"seed\":3,\"temperature\":0,\"noise_scale\":1",
                          i);
    CHECK(page_is(&p, "/broke off. Asked to go on in 1 s/.test(said)"));
    CHECK(page_is(&p, "asked.length === 3 && asked.slice(1).every(a => a.stream_from > 0 && a.if_fingerprint)"));
    page_close(&p, false);
}

/* One place and one that waits, for four columns. */
TEST(page_asks_a_busy_server_again) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SLOW), "--max-batch 1 --max-queue 1",
                      "#max_tokens=40&noise_seeds=1,2,3,4&asked=1"));
    page_wait_done(&p, 4);
    CHECK(page_is(&p, "performance.getEntriesByType('resource').some(r => r.responseStatus === 429)"));
    CHECK(page_is(&p, "document.getElementById('error').hidden"));
    page_close(&p, true);
}

/* A link that is renamed over the one that is served, as an operator would. */
TEST(page_tells_of_the_checkpoint_that_is_served) {
    Page p;
    const char *dir = test_dir(), *live = test_text("%s/live", dir), *fresh = test_text("%s/fresh", dir);
    CHECK(symlink(test_checkpoint(CHECKPOINT_SMALL), live) == 0);
    REQUIRE(page_open(&p, live, NULL, PAGE_SHORT "&noise_seeds=5&asked=1"));
    page_wait_done(&p, 1);
    CHECK(symlink(test_checkpoint(CHECKPOINT_QUIET), fresh) == 0 && rename(fresh, live) == 0);
    kill(p.daemon.pid, SIGHUP);
    browser_wait(&p.browser,
                 "(document.getElementById('stop').ariaDisabled === 'true' && document.getElementById('run').click(), "
                 "/no noise/.test(document.getElementById('noise').textContent))");
    page_close(&p, false);
}

TEST(page_keeps_its_texts_when_the_server_is_gone) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5&asked=1"));
    page_wait_done(&p, 1);
    char *text = page_column_text(&p, 1);
    daemon_stop(&p.daemon);
    p.daemon.pid = 0;
    browser_click(&p.browser, "#run");
    browser_wait(&p.browser, "/cannot be reached/.test(document.querySelector('.foot').textContent)");
    check_text(&p, 1, text);
    free(text);
    page_close(&p, true);
}

static char *chat_answer(const Page *p, const char *messages, int noise_seed) {
    char body[1024];
    snprintf(body, sizeof body,
             "{\"messages\":%s,\"max_tokens\":20,\"temperature\":0,\"repetition_penalty\":1.15,\"seed\":1,"
             "\"noise_scale\":1,\"noise_seed\":%d}",
             messages, noise_seed);
    Answer a = http_post(&p->daemon, "/v1/chat/completions", body);
    const char *text = json_text(a.json, "choices.0.message.content");
    char *copy = xstrdup(text ? text : "");
    answer_free(&a);
    return copy;
}

TEST(page_chats_with_columns) {
    Page p;
    REQUIRE(page_open(&p, "weights/demo", NULL, "#max_tokens=20&noise_seeds=5,6"));
    browser_click(&p.browser, "#chat");
    browser_type(&p.browser, "#prompt", "Who is there?");
    browser_click(&p.browser, "#run");
    page_wait_done(&p, 2);
    char *first[2], messages[512];
    for (int i = 0; i < 2; i++) {
        first[i] = chat_answer(&p, "[{\"role\":\"user\",\"content\":\"Who is there?\"}]", 5 + i);
        check_text(&p, i + 1, first[i]);
    }
    browser_click(&p.browser, "[aria-label='Reply to column 2']");
    browser_wait(&p.browser, "document.querySelectorAll('.turns li').length === 2 && "
                             "document.activeElement.id === 'prompt'");
    browser_type(&p.browser, "#prompt", "And now?");
    browser_click(&p.browser, "#run");
    page_wait_done(&p, 2);
    cJSON *said = cJSON_CreateString(first[1]);
    char *quoted = cJSON_PrintUnformatted(said);
    snprintf(messages, sizeof messages,
             "[{\"role\":\"user\",\"content\":\"Who is there?\"},{\"role\":\"assistant\",\"content\":%s},"
             "{\"role\":\"user\",\"content\":\"And now?\"}]",
             quoted);
    for (int i = 0; i < 2; i++) {
        char *answer = chat_answer(&p, messages, 5 + i);
        check_text(&p, i + 1, answer);
        free(answer);
        free(first[i]);
    }
    free(quoted);
    cJSON_Delete(said);
    page_close(&p, false);
}

/* They are in no text of the answer; the page shows what the model wrote. */
TEST(page_shows_calls_of_tools) {
    Page p;
    REQUIRE(
        page_open(&p, "weights/demo", "--chat-template qwen2.5",
                  "#prompt=Hello&max_tokens=120&noise_seeds=1&asked=1&chat={\"turns\":[]}&extra={\"tools\":[{\"type\":"
                  "\"function\",\"function\":{\"name\":\"go\",\"parameters\":{\"type\":\"object\",\"properties\":"
                  "{\"to\":{\"enum\":[\"a\",\"b\"]}},\"required\":[\"to\"],\"additionalProperties\":false}}}],"
                  "\"tool_choice\":\"required\",\"parallel_tool_calls\":false}"));
    page_wait_done(&p, 1);
    page_check_foot(&p, 1, "ended by the model");
    char *text = page_column_text(&p, 1);
    CHECK_MSG(strstr(text, "{\"name\": \"go\", \"arguments\": {"), "%s", text);
    CHECK(page_is(&p, "document.querySelector('[aria-label^=\"Go on\"]').ariaDisabled === 'true'"));
    free(text);
    page_close(&p, false);
}

TEST(page_takes_all_fields_as_json) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5"));
    page_run(&p, "document.querySelectorAll('form details').forEach(d => { d.open = true; })");
    browser_type(&p.browser, "#fields",
                 "{\"temperature\":0,\"max_tokens\":20,\"noise_scale\":1,\"repetition_penalty\":1.12,\"top_k\":3,"
                 "\"logit_bias\":{\"5\":-9}}\t");
    CHECK(page_is(
        &p,
        "document.getElementById('temperature').value === '0' && !document.getElementById('fields-said').textContent"));
    browser_click(&p.browser, "#run");
    page_wait_done(&p, 1);
    page_check_column(&p, 1,
                      "\"prompt\":\"The river\",\"max_tokens\":20,\"seed\":1,\"temperature\":0,\"noise_scale\":1,"
                      "\"repetition_penalty\":1.12,\"top_k\":3,\"logit_bias\":{\"5\":-9}",
                      5);
    static const char *const bad[][2] = {{"{\"n\":3}", "The page says \"n\" itself."},
                                         {"{\"top_p\":", "This is no JSON yet."},
                                         {"[1]", "The fields are an object, in braces."},
                                         {"{\"temperature\":9}", "\"temperature\" is a number from 0 to 2."}};
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        browser_type(&p.browser, "#fields", bad[i][0]);
        char *said = page_text_of(&p, "#fields-said");
        CHECK_MSG(!strcmp(said, bad[i][1]), "%s: \"%s\"", bad[i][0], said);
        free(said);
    }
    CHECK(page_is(&p, "JSON.parse(new URLSearchParams(location.hash.slice(1)).get('extra')).top_k === 3"));
    page_close(&p, false);
}

TEST(page_saves_answers) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL,
                      "#prompt=%22Oh%22,+he%0Asaid&max_tokens=12&noise_scale=1&noise_seeds=5,6&asked=1"));
    page_wait_done(&p, 2);
    page_run(&p, "const real = URL.createObjectURL; window.saved = [];"
                 "URL.createObjectURL = (blob) => { saved.push(blob); return real.call(URL, blob); }");
    browser_wait(&p.browser, "document.querySelectorAll('#export:not([hidden]) button').length === 2");
    browser_click(&p.browser, "#export button:first-child");
    browser_click(&p.browser, "#export button:last-child");
    browser_wait(&p.browser, "saved.length === 2");
    char *json = browser_text(&p.browser, "return saved[0].text()"),
         *csv = browser_text(&p.browser, "return saved[1].text()");
    cJSON *object = cJSON_Parse(json);
    Answer a = http_post(
        &p.daemon, "/v1/completions",
        "{\"prompt\":\"\\\"Oh\\\", he\\nsaid\",\"max_tokens\":12,\"temperature\":0,\"seed\":1,\"noise_scale\":1,"
        "\"repetition_penalty\":1.15,\"noise_seed\":6,\"logprobs\":5,\"return_token_ids\":true}");
    static const char *const same[][2] = {{"answers.1.text", "choices.0.text"},
                                          {"answers.1.noise_seed", "choices.0.noise_seed"},
                                          {"answers.1.seed", "choices.0.seed"},
                                          {"answers.1.token_ids", "choices.0.token_ids"},
                                          {"answers.1.prompt_token_ids", "choices.0.prompt_token_ids"},
                                          {"answers.1.token_logprobs", "choices.0.logprobs.token_logprobs"},
                                          {"answers.1.top_logprobs", "choices.0.logprobs.top_logprobs"},
                                          {"answers.1.finish_reason", "choices.0.finish_reason"},
                                          {"answers.1.system_fingerprint", "system_fingerprint"}};
    for (size_t i = 0; i < COUNTOF(same); i++)
        CHECK_MSG(cJSON_Compare(json_at(object, same[i][0]), json_at(a.json, same[i][1]), true), "%s", same[i][0]);
    CHECK_MSG(!strncmp(csv, "model,system_fingerprint,noise_seed,seed,", 41) && strstr(csv, ",5,1,1,0,length,12,") &&
                  strstr(csv, ",6,1,1,0,length,12,") && strstr(csv, ",\"\"\"Oh\"\", he\nsaid\","),
              "%s", csv);
    cJSON_Delete(object);
    answer_free(&a);
    free(json);
    free(csv);
    page_close(&p, false);
}

/* By the clipboard itself: what is pasted is the column's text. A browser that forbids it is told of. */
TEST(page_copies_a_column) {
    static const char button[] = "button[aria-label='Copy the text of column 2']";
    Page p;
    REQUIRE(page_open(&p, "weights/demo", "--threads 1", PAGE_SHORT "&noise_seeds=5,6"));
    browser_click(&p.browser, "#run");
    REQUIRE(page_wait_done(&p, 2));
    browser_click(&p.browser, button);
    browser_wait(&p.browser,
                 "document.querySelector(\"button[aria-label='Copy the text of column 2']\").textContent === "
                 "'Copied'");
    browser_click(&p.browser, "#prompt");
    browser_keys(&p.browser, "a", KEY_CONTROL);
    browser_keys(&p.browser, "v", KEY_CONTROL);
    char *pasted = browser_text(&p.browser, "return document.getElementById('prompt').value");
    char *first = page_answer_of(&p, page_short_fields, 5), *second = page_answer_of(&p, page_short_fields, 6);
    CHECK_MSG(!strcmp(pasted, second) && strcmp(first, second), "%s, not %s", pasted, second);
    free(pasted);
    free(first);
    free(second);
    page_run(&p, "navigator.clipboard.writeText = () => Promise.reject(new Error())");
    browser_wait(&p.browser,
                 "document.querySelector(\"button[aria-label='Copy the text of column 2']\").textContent === "
                 "'Copy'");
    browser_click(&p.browser, button);
    browser_wait(&p.browser,
                 "document.querySelector(\"button[aria-label='Copy the text of column 2']\").textContent === "
                 "'Not allowed'");
    page_close(&p, false);
}

TEST(page_counts_the_prompt_and_folds_long_ones) {
    Page p;
    char wanted[128];
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5"));
    browser_type(&p.browser, "#prompt", "The miller counts his stones");
    Answer a = http_post(&p.daemon, "/tokenize", "{\"prompt\":\"The miller counts his stones\"}");
    snprintf(wanted, sizeof wanted, "document.getElementById('length').textContent.startsWith('%g tokens, and 20 ')",
             json_number(a.json, "count"));
    browser_wait(&p.browser, wanted);
    answer_free(&a);
    page_run(&p,
             "const p = document.getElementById('prompt'); p.value = '\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D '.repeat(120); "
             "p.dispatchEvent(new Event('input'))");
    browser_wait(&p.browser, "/ too many\\.$/.test(document.getElementById('length').textContent)");
    CHECK(page_is(&p, "getComputedStyle(document.getElementById('prompt')).direction === 'rtl'"));
    browser_click(&p.browser, "#run");
    browser_wait(&p.browser, "document.querySelector('.foot .failed')");
    CHECK(page_is(&p, "document.querySelector('.given').textContent.length < 420 && "
                      "getComputedStyle(document.querySelector('.text')).direction === 'rtl'"));
    page_close(&p, true);
}

TEST(page_explains_its_words_where_they_stand) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5,6&asked=1"));
    page_wait_done(&p, 2);
    page_unfold(&p);
    CHECK(page_is(
        &p,
        "document.querySelectorAll('.column .hint, #sliders .hint, #numbers .hint, #diversity .hint').length === 11"));
    browser_click(&p.browser, "[aria-label='What is distinct?']");
    browser_wait(&p.browser, "/different pairs/.test(document.getElementById('card')."
                             "textContent) && !document.getElementById('card').hidden");
    browser_keys(&p.browser, KEY_ESCAPE, NULL);
    browser_wait(&p.browser, "document.getElementById('card').hidden");
    page_close(&p, false);
}

/* A link that says what no request may say is a link without it. */
TEST(page_opens_with_a_malformed_link) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL,
                      PAGE_SHORT "&noise_seeds=5&asked=1&chat=%7B%22turns%22:%5Bnull%5D%7D&extra=%7B%22n%22:3%7D"));
    page_wait_done(&p, 1);
    page_check_column(&p, 1, page_short_fields, 5);
    page_close(&p, false);
}
