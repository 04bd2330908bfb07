/* The page of a model that generates no text: the form of its task. */
#include "base/memory.h"
#include "tests/browser/page.h"

#include <stdlib.h>
#include <string.h>

#define LABEL "document.querySelector('.scores caption')?.textContent"

static void check_axe_of(Page *p) {
    char *axe = page_axe();
    if (axe) page_check_axe(p, axe, "a task");
    free(axe);
}

/* What the server says for the request that the page would send. */
static Answer ask(const Page *p, const char *path, const char *input) {
    char body[512];
    snprintf(body, sizeof body, "{\"input\":%s,\"noise_seed\":1,\"noise_samples\":8,\"noise_scale\":1}", input);
    Answer a = http_post(&p->daemon, path, body);
    CHECK_MSG(a.status == 200, "%s", a.body);
    return a;
}

TEST(page_classifies_texts) {
    Page p;
    char wanted[80];
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_CLASSES), NULL, ""));
    browser_wait(&p.browser, "document.querySelector('#task-run')");
    browser_type(&p.browser, "#task-text", "The mill");
    browser_click(&p.browser, "#task-run");
    browser_wait(&p.browser, LABEL);
    Answer a = ask(&p, "/v1/classify", "\"The mill\"");
    char *shown = browser_text(&p.browser, "return " LABEL);
    snprintf(wanted, sizeof wanted, "It is %s.", json_text(a.json, "data.0.label"));
    CHECK_MSG(!strcmp(shown, wanted), "%s, not %s", shown, wanted);
    char *command = browser_text(&p.browser, "return document.getElementById('curl').textContent");
    CHECK_MSG(strstr(command, "/v1/classify") && strstr(command, "The mill"), "%s", command);
    CHECK(browser_number(&p.browser, "return getComputedStyle(document.getElementById('compose')).display === 'none' "
                                     "? 1 : 0") == 1);
    check_axe_of(&p);
    free(command);
    free(shown);
    answer_free(&a);
    page_close(&p, false);
}

TEST(page_tags_words) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_TAGS), NULL, ""));
    browser_wait(&p.browser, "document.querySelector('#task-run')");
    browser_type(&p.browser, "#task-text", "The miller counts the stones below the mill");
    browser_click(&p.browser, "#task-run");
    browser_wait(&p.browser, "document.querySelector('.tagged')");
    Answer a = ask(&p, "/v1/tag", "\"The miller counts the stones below the mill\"");
    int n = cJSON_GetArraySize(json_at(a.json, "data.0.entities"));
    CHECK(browser_number(&p.browser, "return document.querySelectorAll('.tagged mark').length") == n);
    answer_free(&a);
    page_close(&p, false);
}

TEST(page_fills_masks_and_tells_errors) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_MASKS), NULL, ""));
    browser_wait(&p.browser, "document.querySelector('#task-run')");
    browser_type(&p.browser, "#task-text", "no mask");
    browser_click(&p.browser, "#task-run");
    browser_wait(&p.browser, "!document.getElementById('error').hidden");
    char *error = browser_text(&p.browser, "return document.getElementById('error').textContent");
    CHECK_MSG(strstr(error, "no mask") && error[strlen(error) - 1] == '.', "%s", error);
    free(error);
    page_close(&p, true);
}

#define BRIGHTEST                                                                                                      \
    "const c = document.querySelector('canvas'); return Math.max(...c.getContext('2d')"                                \
    ".getImageData(0, 0, c.width, c.height).data.filter((x, i) => i % 4 < 3))"

TEST(page_classifies_drawings) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_IMAGES), NULL, ""));
    browser_wait(&p.browser, "document.querySelector('canvas')");
    browser_click(&p.browser, "canvas");
    CHECK(browser_number(&p.browser, BRIGHTEST) > 0);
    page_run(&p, "const files = new DataTransfer(), input = document.getElementById('picture');" /* no picture */
                 "files.items.add(new File(['none'], 'x.png')); input.files = files.files;"
                 "input.dispatchEvent(new Event('change'))");
    browser_wait(&p.browser, "/x.png is no picture/.test(document.getElementById('error').textContent)");
    CHECK(browser_number(&p.browser, BRIGHTEST) > 0);
    browser_click(&p.browser, "#task-run");
    browser_wait(&p.browser, LABEL);
    CHECK(browser_number(&p.browser, "return document.querySelectorAll('.scores tbody tr').length") == 3);
    CHECK(page_is(&p, "location.hash === '#noise_seed=1&noise_samples=8&noise_scale=1'"));
    check_axe_of(&p);
    page_close(&p, false);
}

/* No completion is asked for behind the form, and the address says nothing of one. */
TEST(page_task_runs_by_the_keyboard) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_CLASSES), NULL, ""));
    browser_wait(&p.browser, "document.querySelector('#task-run')");
    browser_type(&p.browser, "#task-text", "The mill");
    browser_keys(&p.browser, KEY_ENTER, KEY_CONTROL);
    browser_wait(&p.browser, LABEL);
    CHECK(browser_number(&p.browser, "return performance.getEntriesByType('resource').filter(r => "
                                     "r.name.endsWith('completions')).length") == 0);
    CHECK(browser_number(&p.browser, "return location.hash.includes('asked') ? 1 : 0") == 0);
    page_close(&p, false);
}

TEST(page_task_is_in_its_link) {
    Page p;
    REQUIRE(
        page_open(&p, test_checkpoint(CHECKPOINT_CLASSES), NULL, "#text=A+%22mill%22&noise_seed=3&noise_samples=2"));
    browser_wait(&p.browser, "document.querySelector('#task-text')?.value === 'A \"mill\"'");
    char *command = page_text_of(&p, "#curl");
    CHECK_MSG(strstr(command, "\"noise_seed\":3,\"noise_samples\":2,\"noise_scale\":1"), "%s", command);
    free(command);
    browser_type(&p.browser, "#task-text", "Another");
    CHECK(browser_number(&p.browser,
                         "return location.hash === '#text=Another&noise_seed=3&noise_samples=2&noise_scale=1' "
                         "? 1 : 0") == 1);
    char url[128];
    snprintf(url, sizeof url, "%s#text=A&noise_seed=x&noise_samples=0.4&noise_scale=99", p.url);
    browser_open(&p.browser, "about:blank");
    browser_open(&p.browser, url);
    browser_wait(
        &p.browser,
        "/\"noise_seed\":1,\"noise_samples\":1,\"noise_scale\":8/.test(document.getElementById('curl').textContent)");
    page_close(&p, false);
}

/* One column a noise seed, one image a column. */
TEST(page_draws_images_token_by_token) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_PIXELS), NULL, ""));
    browser_wait(&p.browser, "document.querySelectorAll('.column canvas').length === 4");
    browser_click(&p.browser, "#run");
    REQUIRE(page_wait_done(&p, 4));
    Answer a = http_post(&p.daemon, "/v1/completions",
                         "{\"prompt\":\"[0]\",\"max_tokens\":24,\"temperature\":0.7,\"seed\":1,\"noise_seed\":2,"
                         "\"return_token_ids\":true}");
    const cJSON *ids = json_at(a.json, "choices.0.token_ids");
    CHECK_MSG(cJSON_GetArraySize(ids) == 24, "%s", a.body);
    for (int i = 0; i < 24; i++) {
        char script[200];
        int shade = cJSON_GetArrayItem(ids, i)->valueint;
        snprintf(
            script, sizeof script,
            "return document.querySelectorAll('.column canvas')[1].getContext('2d').getImageData(%d,%d,1,1).data[0]",
            i % 6, i / 6);
        CHECK(browser_number(&p.browser, script) == (shade < 16 ? 17 * shade : 0));
    }
    answer_free(&a);
    page_close(&p, false);
}

/* Eight seeds: the map's thumbnails are the images. */
TEST(page_maps_images) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_PIXELS), NULL, "#noise_seeds=1,2,3,4,5,6,7,8"));
    browser_wait(&p.browser, "document.querySelectorAll('.thumb canvas').length === 8");
    browser_click(&p.browser, "#run");
    browser_wait(&p.browser, PAGE_DONE);
    browser_click(&p.browser, ".thumb:nth-child(3)");
    browser_wait(&p.browser, "document.querySelector('.column canvas')");
    char *same = browser_text(
        &p.browser, "const [a, b, c] = ['.thumb:nth-child(3) canvas', '.column canvas', '.thumb:nth-child(4) canvas']"
                    ".map(s => document.querySelector(s).toDataURL()); return `${a === b} ${a === c}`");
    CHECK_MSG(!strcmp(same, "true false"), "%s", same);
    free(same);
    page_close(&p, false);
}
