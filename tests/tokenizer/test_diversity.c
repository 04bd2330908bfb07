/* Figures over texts against tests/oracle/make_diversity.py, which computes them from the papers' definitions. */
#include "tokenizer/diversity.h"

#include "base/memory.h"
#include "tests/support/test.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

static void check_value(const char *name, const char *what, double value, const cJSON *expected) {
    if (cJSON_IsNull(expected))
        CHECK_MSG(isnan(value), "%s: %s is %.17g, not null", name, what, value);
    else
        CHECK_MSG(fabs(value - expected->valuedouble) < 1e-12, "%s: %s is %.17g, not %.17g", name, what, value,
                  expected->valuedouble);
}

static void check_case(const cJSON *c) {
    const char *name = cJSON_GetObjectItem(c, "case")->valuestring;
    const cJSON *list = cJSON_GetObjectItem(c, "texts"), *text, *id;
    int n = 0;
    TokenSpan texts[16] = {0};
    REQUIRE(cJSON_GetArraySize(list) < (int)COUNTOF(texts));
    cJSON_ArrayForEach(text, list) {
        int *ids = xmalloc(((size_t)cJSON_GetArraySize(text) + 1) * sizeof *ids);
        texts[n].ids = ids;
        cJSON_ArrayForEach(id, text) ids[texts[n].n++] = (int)id->valuedouble;
        n++;
    }
    texts[n] = texts[0]; /* is not counted, however near it is */
    Diversity d;
    CHECK(diversity_measure(texts, n, &d) == 0);
    const cJSON *distinct = cJSON_GetObjectItem(c, "distinct");
    for (int i = 0; i < DISTINCT; i++) check_value(name, "distinct", d.distinct[i], cJSON_GetArrayItem(distinct, i));
    check_value(name, "self_bleu", d.self_bleu, cJSON_GetObjectItem(c, "self_bleu"));
    check_value(name, "edit_distance", d.edit_distance, cJSON_GetObjectItem(c, "edit_distance"));
    for (int i = 0; i < n; i++) free((void *)texts[i].ids);
}

TEST(diversity_golden) {
    char *text = test_read_file("tests/tokenizer/diversity_golden.json", NULL);
    REQUIRE(text);
    cJSON *cases = cJSON_Parse(text);
    const cJSON *c;
    CHECK(cJSON_GetArraySize(cases) > 10);
    cJSON_ArrayForEach(c, cases) check_case(c);
    cJSON_Delete(cases);
    free(text);
}

/* Whichever allocation fails: then there are no figures, and nothing else happens. */
TEST(diversity_without_memory) {
    static const int ids[] = {3, 1, 4, 1, 5};
    const TokenSpan texts[] = {{ids, 5}, {ids + 1, 4}};
    Diversity d;
    int refused = 0;
    for (bool failed = true; failed; refused += failed) {
        memory_fail(refused, false);
        int rc = diversity_measure(texts, COUNTOF(texts), &d);
        failed = memory_fail(-1, false) > refused;
        CHECK_MSG(rc == (failed ? -1 : 0), "allocation %d: %d", refused, rc);
    }
    CHECK(refused > 1);
}
