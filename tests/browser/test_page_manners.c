/* Who writes like this: seeds and components by an example of theirs, and the reader's names for components. */
#include "model/kind.h"
#include "tests/browser/page.h"
#include "tests/support/models.h"
#include "tests/tokenizer/test_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define ROWS "document.querySelectorAll('#manners li')"

/* The best is what /v1/score says, and goes on with the text. */
TEST(page_finds_the_seed_of_a_text) {
    Page p;
    REQUIRE(page_open(&p, test_checkpoint(CHECKPOINT_SMALL), NULL, PAGE_SHORT "&noise_seeds=4,5,6&asked=1"));
    browser_wait(&p.browser, PAGE_DONE);
    page_unfold(&p);
    browser_type(&p.browser, "#example", "The miller counts");
    browser_click(&p.browser, "#like");
    browser_wait(&p.browser, ROWS ".length === 3 && /%/.test(document.querySelector('#manners li').textContent)");
    Answer said = http_post(&p.daemon, "/v1/score",
                            "{\"continuations\":[\"The miller counts\"],\"noise_seed\":[4,5,6],\"noise_scale\":1}");
    int best = (int)json_number(said.json, "likeliest.0.noise_seed");
    char wanted[64], path[64];
    snprintf(path, sizeof path, "likeliest.0.shares.%d", best - 4);
    snprintf(wanted, sizeof wanted, "seed %d%.1f %%Write on", best, 100 * json_number(said.json, path));
    char *row = page_text_of(&p, "#manners li");
    CHECK_MSG(!strcmp(row, wanted), "%s, not %s", row, wanted);
    free(row);
    answer_free(&said);
    browser_click(&p.browser, "#manners li button");
    browser_wait(&p.browser, "document.querySelectorAll('.column').length === 1 && " PAGE_DONE);
    snprintf(wanted, sizeof wanted, "document.getElementById('noise-seed-1').value === '%d'", best);
    CHECK(page_is(&p, wanted) && page_is(&p, "document.getElementById('prompt').value === 'The miller counts'"));
    page_close(&p, false);
}

TEST(page_shows_and_names_components) {
    Page p;
    Config c = test_variant(attention_kind_find("symmetric"), "residual");
    c.vocab_size = TEST_VOCAB;
    c.noise.components = 5;
    const char *dir = test_dir();
    REQUIRE(test_checkpoint_write_as(dir, &c, DTYPE_F32, 1));
    REQUIRE(page_open(&p, dir, NULL, PAGE_SHORT "&noise_seeds=4,5&asked=1"));
    browser_wait(&p.browser, PAGE_DONE);
    page_unfold(&p);
    CHECK(page_number(&p, ROWS ".length") == 5);
    CHECK(page_is(&p, "/, component [0-4]/.test(document.querySelector('.foot').textContent)"));
    /* A sample of each is what a request that names it gets. */
    browser_click(&p.browser, "#samples");
    for (int k = 0; k < 5; k += 4) {
        char body[256], script[512];
        snprintf(body, sizeof body, "{\"noise_seed\":4,\"noise_component\":%d,%s}", k, page_short_fields);
        Answer a = http_post(&p.daemon, "/v1/completions", body);
        char *text = cJSON_PrintUnformatted(json_at(a.json, "choices.0.text"));
        snprintf(script, sizeof script, ROWS "[%d].lastChild.textContent === %s.trim()", k, text);
        browser_wait(&p.browser, script);
        free(text);
        answer_free(&a);
    }
    char *axe = page_axe();
    if (axe) page_check_axe(&p, axe, "components");
    free(axe);
    /* A name is kept, and stands where that component answers. */
    browser_type(&p.browser, "[aria-label='Name of component 3']", "King James\t");
    browser_click(&p.browser, "[aria-label='Write on with component 3']");
    browser_wait(&p.browser,
                 PAGE_DONE " && /component 3 “King James”/.test(document.querySelector('.foot').textContent)");
    CHECK(page_is(&p, "/noise_component%22%3A3/.test(location.hash)"));
    page_close(&p, false);
}
