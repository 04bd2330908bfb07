/* The page as an explorer of seeds: many answers of one prompt, where they part, and what other seeds say to them. */
#include "base/memory.h"
#include "tests/browser/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The page's fragment with n noise seeds from 1 on. */
static char *with_seeds(const char *fragment, int n) {
    static char text[1024];
    size_t at = (size_t)snprintf(text, sizeof text, "%s&asked=1&noise_seeds=1", fragment);
    for (int i = 2; i <= n; i++) at += (size_t)snprintf(text + at, sizeof text - at, ",%d", i);
    return text;
}

/* One request brings all, and one seed of it says what it says alone. */
TEST(page_maps_64_seeds_by_one_request) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, with_seeds(PAGE_SHORT, 64)));
    browser_wait(&p.browser, PAGE_DONE);
    CHECK(page_number(&p, "document.querySelectorAll('.thumb').length") == 64);
    CHECK(page_number(&p, "document.querySelectorAll('.column').length") == 0);
    CHECK(page_number(&p, "performance.getEntriesByType('resource').filter(r => /completions/.test(r.name)).length") ==
          1);
    browser_click(&p.browser, ".thumb:nth-child(40)");
    browser_click(&p.browser, ".thumb:nth-child(7)");
    browser_wait(&p.browser, "document.querySelectorAll('.column').length === 2");
    page_check_column(&p, 1, page_short_fields, 40);
    page_check_column(&p, 2, page_short_fields, 7);
    CHECK(page_is(&p, "new URLSearchParams(location.hash.slice(1)).get('open') === '40,7'"));
    browser_click(&p.browser, ".column:nth-child(1) .tools button:last-child");
    browser_wait(&p.browser, "document.querySelectorAll('.column').length === 1");
    CHECK(page_is(&p, "document.activeElement === document.querySelectorAll('.thumb')[39]"));
    /* New noise draws no seed twice. */
    page_run(&p, "let n = 0; Math.random = () => (n++ >> 1) / 10000;");
    browser_click(&p.browser, "#redraw");
    CHECK(
        page_is(&p, "new Set(new URLSearchParams(location.hash.slice(1)).get('noise_seeds').split(',')).size === 64"));
    browser_wait(&p.browser, PAGE_DONE);
    page_close(&p, false);
}

/* Little noise: some seeds say the same. Those have one letter, and stand side by side. */
TEST(page_map_puts_like_beside_like) {
    Page p;
    REQUIRE(page_open(&p, "weights/demo", NULL, with_seeds("#max_tokens=16&noise_scale=0.2&temperature=0", 24)));
    browser_wait(&p.browser, PAGE_DONE);
    page_run(&p, "const o = document.getElementById('order'); o.value = 'alike'; "
                 "o.dispatchEvent(new Event('change'))");
    static const char check[] =
        "const thumbs = [...document.querySelectorAll('.thumb')].sort((a, b) => a.style.order - b.style.order);"
        "const texts = thumbs.map((t) => t.querySelector('.text-of').textContent), seen = new Set();"
        "let apart = 0, letters = 0, same = 0;"
        "texts.forEach((t, i) => {"
        "  if (seen.has(t) && texts[i - 1] !== t) apart++;"
        "  if (seen.has(t)) same++;"
        "  if (i && texts[i - 1] === t && thumbs[i].querySelector('i').textContent !== "
        "      thumbs[i - 1].querySelector('i').textContent) letters++;"
        "  seen.add(t); });"
        "return `${same > 0} ${apart} ${letters} ${new Set(thumbs.map((t) => t.style.order)).size}`";
    char *found = browser_text(&p.browser, check);
    CHECK_MSG(!strcmp(found, "true 0 0 24"), "same, apart, other letters, places: %s", found);
    free(found);
    page_close(&p, false);
}

/* The first token that seed b does not share with seed a, by what the server answers. */
static int parting(const Page *p, int a, int b) {
    int at = 0;
    cJSON *ids[2];
    for (int i = 0; i < 2; i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"noise_seed\":%d,\"return_token_ids\":true,%s}", i ? b : a, page_short_fields);
        Answer answer = http_post(&p->daemon, "/v1/completions", body);
        ids[i] = cJSON_Duplicate(json_at(answer.json, "choices.0.token_ids"), true);
        answer_free(&answer);
    }
    while (at < cJSON_GetArraySize(ids[0]) && at < cJSON_GetArraySize(ids[1]) &&
           cJSON_GetArrayItem(ids[0], at)->valueint == cJSON_GetArrayItem(ids[1], at)->valueint)
        at++;
    cJSON_Delete(ids[0]);
    cJSON_Delete(ids[1]);
    return at;
}

TEST(page_marks_where_seeds_part) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, with_seeds(PAGE_SHORT, 2)));
    browser_wait(&p.browser, PAGE_DONE);
    int at = parting(&p, 1, 2);
    CHECK_MSG(at < 20, "they never part");
    CHECK(page_number(&p, "document.querySelectorAll('.fork').length") == 0);
    for (int i = 1; i <= 2; i++) {
        char script[200];
        snprintf(script, sizeof script,
                 "[...document.querySelectorAll('.column:nth-child(%d) .token')].findIndex(t => "
                 "t.classList.contains('alone'))",
                 i);
        CHECK_MSG(page_number(&p, script) == at, "column %d: %g, not %d", i, page_number(&p, script), at);
    }
    CHECK(page_number(&p, "document.querySelectorAll('.alone').length") == 2);
    CHECK(page_number(&p, "document.querySelectorAll('.strip > .all').length") == at);
    char *words = page_text_of(&p, "#branches p"), wanted[64];
    snprintf(wanted, sizeof wanted, at ? "All 2 begin with the same %d token" : "They part at the first token", at);
    CHECK_MSG(!strncmp(words, wanted, strlen(wanted)), "%s", words);
    free(words);
    /* What stays as it was is there still when all is drawn anew: a press on it counts. */
    page_run(&p, "document.querySelector('.tree button').here = true");
    browser_click(&p.browser, "#repeat");
    browser_wait(&p.browser, "document.querySelectorAll('.foot .same').length === 2");
    CHECK(page_is(&p, "document.querySelector('.tree button').here"));
    /* A leaf of the tree leads to its column. */
    browser_click(&p.browser, ".tree li li:nth-child(2) button");
    browser_wait(&p.browser, "document.activeElement.closest('.column') === document.querySelectorAll('.column')[1]");
    page_close(&p, false);
}

/* The first of three texts under the seeds of all; under its own it has the bits that it was drawn with. */
static void compare_three(Page *p) {
    browser_wait(&p->browser, PAGE_DONE);
    page_unfold(p);
    browser_click(&p->browser, "#under");
    browser_wait(&p->browser, "document.querySelectorAll('.under tr').length === 3");
    char *said = page_text_of(p, "#under-panel > p");
    CHECK_MSG(strstr(said, "Seed 1's own row has the very bits that it was drawn with."), "%s", said);
    free(said);
}

/* Against /v1/score, seed by seed. */
TEST(page_tells_a_text_under_other_seeds) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, with_seeds(PAGE_SHORT, 3)));
    compare_three(&p);
    char body[256];
    snprintf(body, sizeof body, "{\"noise_seed\":1,\"return_token_ids\":true,%s}", page_short_fields);
    Answer first = http_post(&p.daemon, "/v1/completions", body);
    char *ids = cJSON_PrintUnformatted(json_at(first.json, "choices.0.token_ids"));
    for (int seed = 1; seed <= 3; seed++) {
        char request[512], script[256];
        snprintf(request, sizeof request,
                 "{\"prompt\":\"The river\",\"continuations\":[%s],\"noise_seed\":%d,\"noise_scale\":1}", ids, seed);
        Answer score = http_post(&p.daemon, "/v1/score", request);
        double wanted = json_number(score.json, "choices.0.logprob");
        snprintf(script, sizeof script,
                 "[...document.querySelectorAll('.under tr')].find(r => r.firstChild.textContent "
                 "=== '%d').lastChild.textContent",
                 seed);
        CHECK_MSG(fabs(page_number(&p, script) - wanted) < 0.0501, "seed %d: %g, not %g", seed, page_number(&p, script),
                  wanted);
        answer_free(&score);
    }
    CHECK(page_number(&p, "document.querySelectorAll('.own .squares > *').length") == 20);
    page_run(&p, "document.querySelector('.under').focus()");
    browser_keys(&p.browser, KEY_RIGHT, NULL);
    char *spoken = page_text_of(&p, "#spoken");
    CHECK_MSG(strstr(spoken, " % under seed 1"), "%s", spoken);
    free(spoken);
    browser_click(&p.browser, "#redraw"); /* and what was said of texts that are gone goes */
    browser_wait(&p.browser, PAGE_DONE " && !document.querySelector('.under tr')");
    free(ids);
    answer_free(&first);
    page_close(&p, false);
}

TEST(page_tells_a_text_of_a_component_under_other_seeds) {
    Page p;
    REQUIRE(page_open(&p, "weights/demo", NULL, with_seeds(PAGE_SHORT "&extra=%7B%22noise_component%22:2%7D", 3)));
    compare_three(&p);
    page_close(&p, false);
}

TEST(page_sweeps_noise_scales) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, with_seeds(PAGE_SHORT, 2)));
    browser_wait(&p.browser, PAGE_DONE);
    page_unfold(&p);
    browser_click(&p.browser, "#sweep");
    browser_wait(&p.browser, "document.querySelectorAll('.sweep td').length === 10 && "
                             "[...document.querySelectorAll('.sweep th .dim')].every(s => s.textContent)");
    CHECK(
        page_is(&p, "document.querySelector('.sweep tbody tr:first-child td:last-child').textContent === '= seed 1'"));
    char *asked = page_answer_of(
        &p, "\"prompt\":\"The river\",\"max_tokens\":20,\"seed\":3,\"temperature\":0.5,\"noise_scale\":4", 2);
    browser_click(&p.browser, ".sweep tbody tr:last-child td:last-child button");
    browser_wait(&p.browser, PAGE_DONE " && document.getElementById('noise_scale').value === '4'");
    char *column = page_column_text(&p, 2);
    CHECK_MSG(!strcmp(column, asked), "\"%s\", not \"%s\"", column, asked);
    CHECK(page_number(&p, "document.querySelectorAll('.sweep td').length") == 10);
    browser_type(&p.browser, "#prompt", "Another");
    browser_click(&p.browser, "#run");
    browser_wait(&p.browser, "!document.querySelector('.sweep td')");
    free(asked);
    free(column);
    page_close(&p, false);
}

/* ---- nothing that pleased is lost ---- */

static char *first_text(Page *p) {
    browser_wait(&p->browser, PAGE_DONE);
    return page_column_text(p, 1);
}

TEST(page_goes_back_to_past_draws) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=123456&asked=1"));
    char *first = first_text(&p);
    browser_click(&p.browser, "#redraw");
    browser_wait(&p.browser, PAGE_DONE " && document.getElementById('noise-seed-1').value !== '123456'");
    browser_type(&p.browser, "#prompt", "Another");
    CHECK(page_is(&p, "document.querySelector('.column').classList.contains('stale')"));
    CHECK(page_number(&p, "document.querySelectorAll('.draws li').length") == 2);
    page_run(&p, "history.back()");
    browser_wait(&p.browser, PAGE_DONE " && document.getElementById('prompt').value === 'The river'");
    daemon_stop(&p.daemon); /* what was answered needs nobody */
    p.daemon.pid = 0;
    page_run(&p, "history.back()");
    browser_wait(&p.browser, "document.getElementById('noise-seed-1').value === '123456'");
    char *again = page_column_text(&p, 1);
    CHECK_MSG(*first && !strcmp(first, again), "\"%s\" and \"%s\"", first, again);
    free(first);
    free(again);
    page_close(&p, true);
}

/* A browser that stores nothing: the shelf lasts as long as the page, and says so. */
TEST(page_has_a_shelf_without_storage) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5"));
    page_run(&p, "Storage.prototype.setItem = () => { throw new Error('full'); }");
    browser_click(&p.browser, "#run");
    browser_wait(&p.browser, PAGE_DONE);
    browser_click(&p.browser, "[aria-label='Keep column 1']");
    browser_wait(&p.browser, "document.querySelectorAll('.kept li').length === 1 && "
                             "document.querySelectorAll('.draws li').length === 1");
    CHECK(page_is(&p, "/stores nothing/.test(document.getElementById('shelf').textContent)"));
    page_close(&p, false);
}

TEST(page_keeps_and_names_seeds) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=5,6&asked=1"));
    char *text = first_text(&p);
    browser_click(&p.browser, "[aria-label='Keep column 1']");
    browser_click(&p.browser, "[aria-label='Keep column 2']");
    browser_wait(&p.browser, "document.querySelectorAll('.kept input').length === 2");
    browser_click(&p.browser, "#shelf summary");
    browser_type(&p.browser, ".kept input", "King James\t");
    CHECK(page_is(&p, "document.activeElement.textContent === 'Seed 5 here'"));
    char url[256];
    snprintf(url, sizeof url, "%s#prompt=She&max_tokens=9&noise_seeds=1", p.url);
    browser_open(&p.browser, "about:blank");
    browser_open(&p.browser, url);
    browser_wait(&p.browser, "document.querySelector('.kept input')?.value === 'King James'");
    char *kept = browser_text(&p.browser, "return JSON.parse(localStorage.noised).kept[0].text");
    CHECK_MSG(!strcmp(kept, text), "\"%s\", not \"%s\"", kept, text);
    page_run(&p, "document.getElementById('shelf').open = true");
    browser_click(&p.browser, "#compare");
    browser_wait(&p.browser, PAGE_DONE " && document.querySelectorAll('.column').length === 2");
    CHECK(page_number(&p, "document.getElementById('noise-seed-2').value") == 6);
    CHECK(page_is(&p, "document.getElementById('prompt').value === 'She'"));
    page_run(&p, "document.querySelectorAll('[aria-label^=Lock]').forEach(b => b.click())");
    browser_click(&p.browser, ".kept button"); /* the kept seed, asked this prompt */
    browser_wait(&p.browser, PAGE_DONE);
    CHECK(page_number(&p, "document.getElementById('noise-seed-1').value") == 5);
    page_check_column(&p, 1,
                      "\"prompt\":\"She\",\"max_tokens\":9,\"seed\":1,\"temperature\":0,\"noise_scale\":1,"
                      "\"repetition_penalty\":1.15",
                      5);
    browser_click(&p.browser, ".kept a"); /* the draw that it was kept from */
    browser_wait(&p.browser, PAGE_DONE " && document.getElementById('prompt').value === 'The river'");
    page_check_column(&p, 1, page_short_fields, 5);
    free(text);
    free(kept);
    page_close(&p, false);
}
