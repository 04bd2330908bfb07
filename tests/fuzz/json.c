/* What json_check lets through means the same to cJSON, and json_parse finds the same whether it stands in a file, in a
 * request or in what we have written ourselves. */
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16, VALUES = 512 };

static void count(const cJSON *v, int depth, int *values) {
    CHECK(depth <= DEPTH);
    (*values)++;
    if (cJSON_IsNumber(v)) CHECK(isfinite(v->valuedouble));
    if (cJSON_IsString(v)) CHECK(utf8_is_valid(v->valuestring, strlen(v->valuestring)));
    bool container = cJSON_IsArray(v) || cJSON_IsObject(v);
    for (const cJSON *c = v->child; container && c; c = c->next) {
        for (const cJSON *d = c->next; cJSON_IsObject(v) && d; d = d->next) CHECK(strcmp(c->string, d->string) != 0);
        count(c, depth + 1, values);
    }
}

static void look(const uint8_t *data, size_t n) {
    Err err = {""};
    const char *text = (const char *)data;
    int rc = json_check(text, n, DEPTH, VALUES, &err), values = 0;
    cJSON *root = json_parse(text, n, DEPTH, VALUES, NULL);
    CHECK_MSG((rc == 0) == (root != NULL), "checked %d, parsed %d: %s", rc, root != NULL, err.msg);
    CHECK(rc == 0 || err.msg[0]);
    if (!root) return;
    count(root, cJSON_IsArray(root) || cJSON_IsObject(root) ? 1 : 0, &values);
    CHECK(values <= VALUES);
    char *printed = cJSON_PrintUnformatted(root);
    cJSON *again = json_parse(printed, strlen(printed), DEPTH, VALUES, &err);
    CHECK_MSG(again && cJSON_Compare(root, again, true), "printed as %s: %s", printed, again ? "another" : err.msg);
    CHECK(show_json(root).text[0]);
    int64_t whole;
    if (json_int64(root, &whole) && llabs(whole) <= JSON_INTEGER_MAX) CHECK((double)whole == root->valuedouble);
    cJSON_Delete(again);
    cJSON_free(printed);
    cJSON_Delete(root);
}

TEST(fuzz_json) { fuzz_run("json", look); }
