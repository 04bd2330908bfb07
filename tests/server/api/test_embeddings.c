/* POST /v1/embeddings: OpenAI's request and answer. */
#include "base/err.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static char *vectors(const Daemon *d, const char *fields) {
    char body[512];
    snprintf(body, sizeof body, "{%s}", fields);
    Answer a = http_post(d, "/v1/embeddings", body);
    CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
    char *data = json_raw(a.json, "data");
    answer_free(&a);
    return data ? data : strdup("");
}

static void check_vectors(const Daemon *d, const char *a, const char *b, bool same) {
    char *x = vectors(d, a), *y = vectors(d, b);
    CHECK_MSG(*x && !strcmp(x, y) == same, "%s\n%s\n%s\n%s", a, x, b, y);
    free(x);
    free(y);
}

TEST(embeddings_object) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_post(&d, "/v1/embeddings", "{\"input\":[\"The river runs\",\"The mill\"],\"user\":\"me\"}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    CHECK(!strcmp(json_text(a.json, "object"), "list") && !strncmp(json_text(a.json, "id"), "embd-", 5));
    CHECK(json_number(a.json, "created") > 1.7e9);
    for (int i = 0; i < 2; i++) {
        char path[40];
        snprintf(path, sizeof path, "data.%d.embedding", i);
        const cJSON *x = json_at(a.json, path), *v;
        double squares = 0;
        cJSON_ArrayForEach(v, x) squares += v->valuedouble * v->valuedouble;
        CHECK_MSG(fabs(squares - 1) < 1e-5, "%g", squares);
        snprintf(path, sizeof path, "data.%d.index", i);
        CHECK(json_number(a.json, path) == i);
    }
    CHECK(json_number(a.json, "usage.prompt_tokens") > 2);
    CHECK(json_number(a.json, "usage.prompt_tokens") == json_number(a.json, "usage.total_tokens"));
    CHECK(cJSON_IsNull(json_at(a.json, "noise_seed")));
    answer_free(&a);
    daemon_stop(&d);
}

TEST(embeddings_repeat) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_vectors(&d, "\"input\":\"The mill\"", "\"input\":\"The mill\",\"pooling\":\"mean\"", true);
    check_vectors(&d, "\"input\":\"The mill\"", "\"input\":\"The mill\",\"pooling\":\"last\"", false);
    check_vectors(&d, "\"input\":\"The mill\"", "\"input\":\"The mill\",\"seed\":3,\"noise_scale\":0", true);
    check_vectors(&d, "\"input\":\"The mill\"", "\"input\":\"The mill\",\"seed\":3", false);
    check_vectors(&d, "\"input\":\"The mill\",\"noise_seed\":3", "\"input\":\"The mill\",\"seed\":3", true);
    check_vectors(&d, "\"input\":\"The mill\",\"noise_seed\":4", "\"input\":\"The mill\",\"seed\":3", false);
    char *two = vectors(&d, "\"input\":[\"The mill\",\"ab\"]"), *one = vectors(&d, "\"input\":\"The mill\"");
    CHECK_MSG(!strncmp(one, two, strlen(one) - 1), "%s\n%s", one, two);
    free(one);
    free(two);
    daemon_stop(&d);
}

TEST(embeddings_base64) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_post(&d, "/v1/embeddings", "{\"input\":[1,2,3]}");
    Answer b = http_post(&d, "/v1/embeddings", "{\"input\":[[1,2,3]],\"encoding_format\":\"base64\"}");
    REQUIRE(a.status == 200 && b.status == 200);
    const cJSON *x = json_at(a.json, "data.0.embedding");
    const char *text = json_text(b.json, "data.0.embedding");
    float y[1024] = {0};
    REQUIRE(text && strlen(text) < sizeof y);
    EVP_DecodeBlock((unsigned char *)y, (const unsigned char *)text, (int)strlen(text));
    for (int i = 0; i < cJSON_GetArraySize(x); i++)
        CHECK_MSG((float)cJSON_GetArrayItem(x, i)->valuedouble == y[i], "%d: %.9g", i, (double)y[i]);
    answer_free(&a);
    answer_free(&b);
    daemon_stop(&d);
}

TEST(embeddings_bad_requests) {
    static const Bad bad[] = {
        {"{}", 400, "input"},
        {"{\"input\":null}", 400, "input"},
        {"{\"input\":[]}", 400, "input"},
        {"{\"input\":[[]]}", 400, "input"},
        {"{\"input\":3}", 400, "input"},
        {"{\"input\":[\"a\",true]}", 400, "input"},
        {"{\"input\":[320]}", 400, "input"},
        {"{\"input\":\"a\",\"encoding_format\":\"hex\"}", 400, "encoding_format"},
        {"{\"input\":\"a\",\"encoding_format\":1}", 400, "encoding_format"},
        {"{\"input\":\"a\",\"pooling\":\"max\"}", 400, "pooling"},
        {"{\"input\":\"a\",\"dimensions\":0}", 400, "dimensions"},
        {"{\"input\":\"a\",\"dimensions\":7}", 400, "dimensions"},
        {"{\"input\":\"a\",\"noise_scale\":8.5}", 400, "noise_scale"},
        {"{\"input\":\"a\",\"noise_seed\":-1}", 400, "noise_seed"},
        {"{\"input\":\"a\",\"model\":\"other\"}", 404, "model"},
        {"{\"input\":\"a\",\"max_tokens\":1}", 400, "max_tokens"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_bodies(&d, "/v1/embeddings", bad, COUNTOF(bad));
    char *body = malloc(8192), *end = body + sprintf(body, "{\"input\":[1");
    for (int i = 1; i < 512; i++) end += sprintf(end, ",1");
    strcpy(end, "]}");
    Answer a = http_post(&d, "/v1/embeddings", body);
    CHECK_MSG(a.status == 200, "a whole context: %s", a.body);
    answer_free(&a);
    strcpy(end, ",1]}");
    a = http_post(&d, "/v1/embeddings", body);
    answer_check_error(&a, 400, "input", "beyond the context");
    answer_free(&a);
    free(body);
    daemon_stop(&d);
}
