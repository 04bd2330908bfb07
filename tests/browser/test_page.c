/* The page of GET / in Chromium: what a reader does with it. */
#include "tests/browser/page.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char demo[] = "weights/demo";

TEST(page_columns_show_what_the_server_says) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5,6,7"));
    browser_click(&p.browser, "#run");
    if (page_wait_done(&p, 3))
        for (int i = 0; i < 3; i++) page_check_column(&p, i + 1, page_short_fields, 5 + i);
    page_close(&p, false);
}

TEST(page_streams_side_by_side_and_stops) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SLOW), NULL, "#max_tokens=3000&noise_seeds=1,2,3"));
    browser_type(&p.browser, "#prompt", "The miller");
    browser_keys(&p.browser, KEY_ENTER, KEY_CONTROL);
    browser_wait(&p.browser, "[...document.querySelectorAll('.column.busy')].filter(c => "
                             "c.querySelectorAll('.token').length > 3).length === 3");
    browser_click(&p.browser, "#sliders .hint"); /* its Escape is its own */
    browser_keys(&p.browser, KEY_ESCAPE, NULL);
    browser_wait(&p.browser, "document.getElementById('card').hidden");
    CHECK(page_is(&p, "document.querySelectorAll('.column.busy').length === 3"));
    browser_click(&p.browser, "#stop");
    browser_wait(&p.browser, "document.getElementById('status').textContent === 'Stopped.'");
    double stopped = browser_number(&p.browser, "return document.querySelectorAll('.token').length");
    CHECK_MSG(stopped > 9 && stopped < 9000, "%g tokens", stopped);
    double until = now_seconds() + PATIENCE;
    for (int running = 1; running;) {
        Answer a = http_get(&p.daemon, "/health");
        running = (int)json_number(a.json, "running");
        answer_free(&a);
        REQUIRE(!running || now_seconds() < until);
    }
    page_close(&p, false);
}

static double seed_of(Page *p, int column) {
    char script[128];
    snprintf(script, sizeof script, "return Number(document.getElementById('noise-seed-%d').value)", column);
    return browser_number(&p->browser, script);
}

TEST(page_lock_keeps_a_seed) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=123456,234567"));
    browser_click(&p.browser, "#run");
    page_wait_done(&p, 2);
    browser_click(&p.browser, ".column:nth-child(2) button[aria-pressed]");
    browser_wait(&p.browser,
                 "document.querySelector('.column:nth-child(2) button[aria-pressed]').ariaPressed === 'true'");
    browser_click(&p.browser, "#redraw");
    browser_wait(&p.browser, "document.getElementById('noise-seed-1').value !== '123456'");
    page_wait_done(&p, 2);
    CHECK(seed_of(&p, 1) < 10000 && seed_of(&p, 2) == 234567);
    page_check_column(&p, 1, page_short_fields, (int)seed_of(&p, 1));
    page_check_column(&p, 2, page_short_fields, 234567);
    browser_click(&p.browser, ".column:nth-child(1) button[aria-pressed]");
    browser_wait(&p.browser, "document.getElementById('redraw').ariaDisabled === 'true'");
    page_close(&p, false);
}

/* Per cent of the card: "12 %" of its first line. */
TEST(page_token_tells_its_probability) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5&asked=1"));
    page_wait_done(&p, 1);
    char request[512], expected[64];
    snprintf(request, sizeof request, "{\"noise_seed\":5,\"logprobs\":5,%s}", page_short_fields);
    Answer a = http_post(&p.daemon, "/v1/completions", request);
    double percent = 100 * exp(json_number(a.json, "choices.0.logprobs.token_logprobs.2"));
    snprintf(expected, sizeof expected,
             percent >= 10    ? " %.0f %%, token 3"
             : percent >= 0.1 ? " %.1f %%, token 3"
                              : " < 0.1 %%, token 3",
             percent);
    browser_hover(&p.browser, ".token:nth-child(4)"); /* the prompt is the first child */
    browser_wait(&p.browser, "!document.getElementById('card').hidden");
    char *card = page_text_of(&p, "#card");
    CHECK_MSG(strstr(card, expected), "\"%s\" not in \"%s\"", expected, card);
    int others = cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.top_logprobs.2"));
    CHECK(browser_number(&p.browser, "return document.querySelectorAll('#card tr').length") == others && others >= 5);
    CHECK(browser_number(&p.browser, "return document.querySelectorAll('#card .chosen').length") == 1);
    free(card);
    answer_free(&a);
    page_close(&p, false);
}

TEST(page_tokens_by_keyboard) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5&asked=1"));
    page_wait_done(&p, 1);
    page_run(&p, "document.querySelector('.text').focus()");
    browser_keys(&p.browser, KEY_RIGHT, NULL);
    browser_keys(&p.browser, KEY_RIGHT, NULL);
    char *spoken = page_text_of(&p, "#spoken");
    CHECK_MSG(!strncmp(spoken, "Column 1, token ", 16) && strstr(spoken, "; otherwise "), "%s", spoken);
    free(spoken);
    CHECK(browser_number(&p.browser, "return [...document.querySelectorAll('.token')].findIndex(t => "
                                     "t.classList.contains('current'))") == 1);
    browser_keys(&p.browser, KEY_ESCAPE, NULL);
    browser_wait(&p.browser, "document.getElementById('card').hidden");
    page_close(&p, false);
}

/* A finger that is lifted leaves the pointer's place; what it showed stays until it taps elsewhere. */
TEST(page_token_tells_its_probability_to_a_finger) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5&asked=1"));
    page_wait_done(&p, 1);
    browser_tap(&p.browser, ".token:nth-child(4)");
    browser_wait(&p.browser, "!document.getElementById('card').hidden");
    char *card = page_text_of(&p, "#card");
    CHECK_MSG(strstr(card, ", token 3"), "%s", card);
    free(card);
    browser_tap(&p.browser, "h1");
    browser_wait(&p.browser, "document.getElementById('card').hidden");
    page_close(&p, false);
}

TEST(page_focus_stays_on_the_pressed_button) {
    static const char *const buttons[] = {"repeat", "stop"};
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SLOW), NULL, "#max_tokens=1500&noise_seeds=5&asked=1"));
    page_wait_done(&p, 1);
    for (size_t i = 0; i < COUNTOF(buttons); i++) {
        char script[96];
        snprintf(script, sizeof script, "document.getElementById('%s').focus()", buttons[i]);
        page_run(&p, script);
        browser_keys(&p.browser, KEY_ENTER, NULL);
        browser_wait(&p.browser, i == 0 ? "document.querySelector('.busy')" : "!document.querySelector('.busy')");
        char *focused = browser_text(&p.browser, "return document.activeElement.id");
        CHECK_MSG(!strcmp(focused, buttons[i]), "the focus is on \"%s\", not on %s", focused, buttons[i]);
        free(focused);
    }
    page_close(&p, false);
}

TEST(page_says_where_it_asks_for_other_than_the_defaults) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), "--noise-scale 1.5", ""));
    browser_wait(&p.browser, "document.querySelector('#unlike:not([hidden])')");
    char *unlike = page_text_of(&p, "#unlike span");
    CHECK_MSG(
        !strcmp(unlike, "A request that does not say gets noise scale 1.5, temperature 1, tokens 16, repetition 1."),
        "%s", unlike);
    free(unlike);
    browser_click(&p.browser, "#defaults");
    browser_wait(&p.browser, "document.querySelector('#unlike').hidden");
    CHECK(browser_number(&p.browser, "return +document.getElementById('noise_scale').value") == 1.5);
    CHECK(browser_number(&p.browser, "return +document.getElementById('repetition_penalty').value") == 1);
    page_close(&p, false);
}

/* Of so many digits as those that New noise draws, locked or not. */
TEST(page_shows_whole_seeds) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL,
                      PAGE_SHORT "&noise_seeds=8888,8888,8888,8888&locks=1010"));
    for (int width = 375; width <= 1280; width += 905) {
        browser_size(&p.browser, width, 1000);
        CHECK_MSG(
            page_is(&p, "[...document.querySelectorAll('.head input')].every(i => i.scrollWidth <= i.clientWidth)"),
            "cut at %d pixels", width);
    }
    page_close(&p, false);
}

TEST(page_permalink_says_the_same_elsewhere) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, ""));
    browser_type(&p.browser, "#prompt", "100% \"a&b\" #\xC3\xBC");
    browser_type(&p.browser, "#max_tokens", "12");
    browser_type(&p.browser, "#noise-seed-2", "77");
    page_run(&p, "const t = document.getElementById('temperature'); t.value = 1.25; "
                 "t.dispatchEvent(new Event('input'))");
    browser_click(&p.browser, ".column:nth-child(2) button[aria-pressed]");
    browser_click(&p.browser, "#run");
    page_wait_done(&p, 4);
    char *link = browser_text(&p.browser, "return location.href"), *text = page_column_text(&p, 2);
    browser_open(&p.browser, "about:blank");
    browser_open(&p.browser, link);
    page_wait_done(&p, 4);
    char *again = page_column_text(&p, 2), *link_again = browser_text(&p.browser, "return location.href");
    char *prompt = browser_text(&p.browser, "return document.getElementById('prompt').value");
    CHECK_MSG(*text && !strcmp(text, again), "\"%s\" and \"%s\"", text, again);
    CHECK_MSG(!strcmp(link, link_again), "%s and %s", link, link_again);
    CHECK_MSG(!strcmp(prompt, "100% \"a&b\" #\xC3\xBC"), "%s", prompt);
    double temperature = browser_number(&p.browser, "return +document.getElementById('temperature').value");
    CHECK_MSG(seed_of(&p, 2) == 77 && temperature == 1.25, "%g, %g", seed_of(&p, 2), temperature);
    browser_wait(&p.browser,
                 "document.querySelector('.column:nth-child(2) button[aria-pressed]').ariaPressed === 'true'");
    free(link), free(text), free(again), free(link_again), free(prompt);
    page_close(&p, false);
}

TEST(page_reloaded_in_the_middle_says_the_same) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SLOW), NULL,
                      "#max_tokens=600&noise_seeds=1,2&prompt=The&seed=3&noise_scale=1&repetition_penalty=1"));
    browser_click(&p.browser, "#run");
    browser_wait(&p.browser, "document.querySelectorAll('.column.busy .token').length > 4");
    browser_reload(&p.browser);
    page_wait_done(&p, 2);
    for (int i = 1; i <= 2; i++)
        page_check_column(&p, i, "\"prompt\":\"The\",\"max_tokens\":600,\"seed\":3,\"temperature\":0,\"noise_scale\":1",
                          i);
    page_close(&p, false);
}

TEST(page_repeat_shows_the_same_bytes) {
    Page p;
    char expected[64];
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5,6&asked=1"));
    page_wait_done(&p, 2);
    char *text = page_column_text(&p, 1);
    browser_click(&p.browser, "#repeat");
    browser_wait(&p.browser, "document.querySelectorAll('.foot .same').length === 2");
    snprintf(expected, sizeof expected, "the same %zu bytes and 20 log-probabilities.", strlen(text));
    page_check_foot(&p, 1, expected);
    free(text);
    page_close(&p, false);
}

TEST(page_repeat_sees_another_answer) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5&asked=1"));
    page_wait_done(&p, 1);
    /* A server that has another text meanwhile. */
    page_run(&p, "const real = fetch; window.fetch = (to, options) => real(to, {...options, body: "
                 "options.body?.replace('\"noise_seed\":5', '\"noise_seed\":6')})");
    browser_click(&p.browser, "#repeat");
    browser_wait(&p.browser, "document.querySelectorAll('.foot .other').length === 1");
    page_check_foot(&p, 1, " is another.");
    page_close(&p, false);
}

/* The shown command, run by a shell, answers what the columns show. */
TEST(page_curl_command_answers_the_same) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL,
                      "#prompt=It's+a+%22mill%22&max_tokens=9&noise_seeds=5,6&asked=1"));
    page_wait_done(&p, 2);
    char *shell = page_text_of(&p, "#curl"), line[8192];
    FILE *f = popen(shell, "r");
    BUG_ON(!f);
    for (int i = 1; i <= 2; i++) {
        cJSON *answer = fgets(line, sizeof line, f) ? cJSON_Parse(line) : NULL;
        const char *text = json_text(answer, "choices.0.text");
        char *shown = page_column_text(&p, i);
        CHECK_MSG(text && !strcmp(text, shown), "\"%s\" and \"%s\" by\n%s", text ? text : line, shown, shell);
        free(shown);
        cJSON_Delete(answer);
    }
    pclose(f);
    free(shell);
    page_close(&p, false);
}

static void check_error(Page *p, const char *expected) {
    browser_wait(&p->browser, "!document.getElementById('error').hidden");
    char *error = page_text_of(p, "#error");
    CHECK_MSG(strstr(error, expected) && strchr(".!?", error[strlen(error) - 1]), "\"%s\" not in \"%s\"", expected,
              error);
    free(error);
}

TEST(page_errors_are_sentences) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, "#max_tokens=512&noise_seeds=1"));
    browser_wait(&p.browser, "document.title !== 'noised'");
    browser_click(&p.browser, "#run");
    check_error(&p, "512"); /* prompt and answer do not fit the context */
    page_close(&p, true);
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SLOW), "--max-batch 1 --max-queue 1", "#noise_seeds=1"));
    browser_wait(&p.browser, "document.title !== 'noised'");
    browser_type(&p.browser, "#columns", "6");
    browser_type(&p.browser, "#max_tokens", "3000\t");
    browser_click(&p.browser, "#run");
    browser_wait(&p.browser, "[...document.querySelectorAll('.foot')].some(f => /The server is busy; asked again in "
                             "\\d+ s\\./.test(f.textContent))");
    browser_click(&p.browser, "#stop");
    browser_wait(&p.browser, "document.getElementById('status').textContent === 'Stopped.'");
    daemon_stop(&p.daemon);
    p.daemon.pid = 0;
    browser_click(&p.browser, "#run");
    browser_wait(&p.browser, "/cannot be reached/.test(document.getElementById('error').textContent)");
    page_close(&p, true);
}

TEST(page_asks_for_the_key) {
    const char *dir = test_dir();
    char path[256], options[300];
    Page p;
    keys_write(path, dir, "secret\n");
    snprintf(options, sizeof options, "--api-key-file %s", path);
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), options, PAGE_SHORT "&noise_seeds=5"));
    check_error(&p, "wants an API key");
    browser_type(&p.browser, "#key", "wrong" KEY_ENTER);
    browser_wait(&p.browser, "/not one of the server/.test(document.getElementById('error').textContent)");
    browser_type(&p.browser, "#key", "secret\t");
    browser_wait(&p.browser, "document.title !== 'noised'");
    browser_click(&p.browser, "#run");
    page_wait_done(&p, 1);
    char *everything =
        browser_text(&p.browser, "return location.href + document.getElementById('curl').textContent + "
                                 "JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie");
    CHECK_MSG(!strstr(everything, "secret") && strstr(everything, "$NOISED_API_KEY"), "%s", everything);
    free(everything);
    page_close(&p, true);
}

/* Enter asks for the model and for an answer at once, whose tokens have a component. */
TEST(page_takes_the_key_by_enter) {
    const char *dir = test_dir();
    char path[256], options[300];
    Page p;
    keys_write(path, dir, "secret\n");
    snprintf(options, sizeof options, "--api-key-file %s", path);
    REQUIRE(page_open(&p, "weights/demo", options, PAGE_SHORT "&noise_seeds=5"));
    check_error(&p, "wants an API key");
    browser_type(&p.browser, "#key", "secret" KEY_ENTER);
    page_wait_done(&p, 1);
    browser_wait(&p.browser, "document.title !== 'noised'");
    page_close(&p, true);
}

/* Distinct-1 and the heat map against figures computed another way. */
TEST(page_draws_noise_and_diversity) {
    Page p;
    REQUIRE(page_open(&p, demo, NULL, "#max_tokens=40&noise_seeds=1,2,3&asked=1"));
    page_wait_done(&p, 3);
    CHECK(browser_number(&p.browser, "return document.querySelectorAll('.map td').length") == 5);
    char *sigma = browser_text(
        &p.browser, "return document.querySelector('.map tbody tr:nth-child(2) td:nth-child(2)').textContent");
    CHECK_MSG(!strcmp(sigma, "0.202"), "%s", sigma); /* 0.20212, components and all, in the checkpoint */
    free(sigma);
    int n = 0, fresh = 0;
    char *seen[120] = {0};
    for (int seed = 1; seed <= 3; seed++) {
        char body[300];
        snprintf(body, sizeof body,
                 "{\"prompt\":\"It was a dark night, and\",\"max_tokens\":40,\"temperature\":0,\"noise_scale\":1,"
                 "\"repetition_penalty\":1.15,\"seed\":1,\"noise_seed\":%d,\"logprobs\":0}",
                 seed);
        Answer a = http_post(&p.daemon, "/v1/completions", body);
        const cJSON *token;
        cJSON_ArrayForEach(token, json_at(a.json, "choices.0.logprobs.tokens")) {
            bool known = false;
            for (int i = 0; i < n && !known; i++) known = !strcmp(seen[i], token->valuestring);
            fresh += !known;
            seen[n++] = xstrdup(token->valuestring);
        }
        answer_free(&a);
    }
    double shown = browser_number(&p.browser, "return Number(document.querySelector('.figures dd').textContent)");
    CHECK_MSG(fabs(shown - (double)fresh / n) < 6e-4, "%g, not %d of %d", shown, fresh, n);
    CHECK(browser_number(&p.browser, "return document.querySelector('.distance').getAttribute('d').length") > 10);
    CHECK(browser_number(&p.browser, "return document.querySelectorAll('.fork, .alone').length") >= 3);
    for (int i = 0; i < n; i++) free(seen[i]);
    page_close(&p, false);
}

/* ---- access for everybody ---- */

/* The map, and every part of the page unfolded. */
TEST(page_is_accessible) {
    Page p;
    char *axe = page_axe();
    if (!axe) SKIP("no axe-core (it comes by npm)");
    REQUIRE(page_open(&p, demo, NULL,
                      "#max_tokens=24&open=2&noise_seeds=1,2,3,4,5,6,7,8&asked=1&chat="
                      "{\"turns\":[[\"Who is there?\",\"Nobody.\",3]]}"));
    browser_wait(&p.browser, PAGE_DONE);
    browser_click(&p.browser, "[aria-label='Keep column 2']");
    page_unfold(&p);
    browser_click(&p.browser, "#under");
    browser_wait(&p.browser, "document.querySelectorAll('.under tr').length === 8");
    browser_click(&p.browser, "#sweep");
    browser_wait(&p.browser, "document.querySelectorAll('.sweep tr').length === 6 && "
                             "[...document.querySelectorAll('.sweep th .dim')].every(s => s.textContent)");
    page_check_axe(&p, axe, "light");
    browser_scheme(&p.browser, true);
    page_check_axe(&p, axe, "dark");
    for (int width = 390; width <= 820; width += 430) {
        browser_size(&p.browser, width, 844);
        browser_hover(&p.browser, ".token:nth-child(4)");
        page_check_axe(&p, axe, width == 390 ? "a phone's width" : "a tablet's");
        CHECK(browser_number(&p.browser, "return document.documentElement.scrollWidth") <= width);
    }
    free(axe);
    page_close(&p, false);
}

static void picture(Page *p, const char *name, int width, int height, bool dark) {
    const char *build = getenv("BUILD");
    char path[512];
    size_t n = 0;
    browser_scheme(&p->browser, dark);
    browser_size(&p->browser, width, height);
    cJSON_Delete(browser_run(&p->browser, "scrollTo(0, 0)"));
    snprintf(path, sizeof path, "%s/%s.png", build ? build : "build", name);
    browser_screenshot(&p->browser, path);
    char *png = test_read_file(path, &n);
    CHECK_MSG(png && n > 10000 && n < 400000 && !memcmp(png, "\x89PNG", 4), "%s: %zu bytes", path, n);
    free(png);
}

/* For README and docs, copied there by `make pictures`. */
TEST(page_pictures) {
    Page p;
    REQUIRE(page_open(&p, demo, NULL, "#max_tokens=48&noise_scale=1&asked=1"));
    page_wait_done(&p, 4);
    browser_click(&p.browser, "#repeat");
    browser_wait(&p.browser, "document.querySelectorAll('.foot .same').length === 4");
    browser_size(&p.browser, 1280, 1080);
    browser_hover(&p.browser, ".column:nth-child(4) .token:nth-child(6)");
    picture(&p, "page", 1280, 1080, false);
    browser_hover(&p.browser, "h1");
    picture(&p, "page-phone", 390, 1300, false);
    char url[400];
    size_t at = (size_t)snprintf(url, sizeof url, "%s#max_tokens=48&noise_scale=0.7&asked=1&noise_seeds=1", p.url);
    for (int i = 2; i <= 64; i++) at += (size_t)snprintf(url + at, sizeof url - at, ",%d", i);
    browser_open(&p.browser, "about:blank");
    browser_open(&p.browser, url);
    browser_wait(&p.browser, PAGE_DONE);
    page_run(&p, "const o = document.getElementById('order'); o.value = 'alike'; "
                 "o.dispatchEvent(new Event('change')); document.querySelectorAll('.several')[1].open "
                 "= true");
    browser_click(&p.browser, "#under");
    browser_wait(&p.browser, "document.querySelectorAll('.under tr').length === 64");
    browser_hover(&p.browser, "h1");
    picture(&p, "page-seeds", 1280, 1900, false);
    picture(&p, "page-dark", 820, 1700, true);
    page_close(&p, false);
}
