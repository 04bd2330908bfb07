/* POST /v1/embeddings: OpenAI's request and answer. */
#include "base/err.h"
#include "model/kind.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"

#include <math.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static char *vectors(const Daemon *d, const char *fields) {
    const char *body = test_text("{%s}", fields);
    Answer a = http_post(d, "/v1/embeddings", body);
    CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
    char *data = json_raw(a.json, "data");
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
        const cJSON *x = json_at(a.json, test_text("data.%d.embedding", i)), *v;
        double squares = 0;
        cJSON_ArrayForEach(v, x) squares += v->valuedouble * v->valuedouble;
        CHECK_MSG(fabs(squares - 1) < 1e-5, "%g", squares);
        CHECK(json_number(a.json, test_text("data.%d.index", i)) == i);
    }
    CHECK(json_number(a.json, "usage.prompt_tokens") > 2);
    CHECK(json_number(a.json, "usage.prompt_tokens") == json_number(a.json, "usage.total_tokens"));
    CHECK(cJSON_IsNull(json_at(a.json, "noise_seed")));
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

/* Who asks for noise without a seed gets the daemon's. */
TEST(embeddings_under_the_daemons_noise_seed) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--noise-seed 5"));
    check_vectors(&d, "\"input\":\"The mill\",\"noise_scale\":2", "\"input\":\"The mill\",\"noise_scale\":2,\"seed\":5",
                  true);
    check_vectors(&d, "\"input\":\"The mill\"", "\"input\":\"The mill\",\"noise_scale\":0", true);
    daemon_stop(&d);
}

/* Its components are drawn at noise_scale 0 too, by a seed that nobody who sends none may notice. */
TEST(embeddings_of_a_mixture_repeat) {
    Daemon d;
    Config c = test_variant(attention_kind_find("symmetric"), "noise");
    const char *dir = test_dir();
    c.vocab_size = TEST_VOCAB;
    c.noise.density = DENSITY_MIXTURE;
    c.noise.components = 3;
    REQUIRE(test_checkpoint_write_as(dir, &c, DTYPE_F32, 1) && daemon_start_at(&d, dir, NULL));
    check_vectors(&d, "\"input\":\"The mill\"", "\"input\":\"The mill\"", true);
    check_vectors(&d, "\"input\":\"The mill\"", "\"input\":\"The mill\",\"noise_seed\":0,\"noise_scale\":0", true);
    check_vectors(&d, "\"input\":\"The mill\"", "\"input\":\"The mill\",\"noise_seed\":1,\"noise_scale\":0", false);
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
    strcpy(end, ",1]}");
    a = http_post(&d, "/v1/embeddings", body);
    answer_check_error(&a, 400, "input", "beyond the context");
    free(body);
    daemon_stop(&d);
}

/* Both vectors have unit length. */
static double product(const cJSON *json, int a, int b) {
    double sum = 0;
    const cJSON *x = json_at(json, test_text("data.%d.embedding", a)), *y;
    y = json_at(json, test_text("data.%d.embedding", b));
    for (x = x ? x->child : NULL, y = y ? y->child : NULL; x && y; x = x->next, y = y->next)
        sum += x->valuedouble * y->valuedouble;
    return sum;
}

#define QUERY "\"query\":\"The river runs\""
#define DOCUMENTS "[\"The mill\",{\"text\":\"The river runs\"},\"\",\"Stones and words\"]"

TEST(rerank_is_the_cosine_of_embeddings) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer all = http_post(&d, "/v1/rerank", "{" QUERY ",\"documents\":" DOCUMENTS ",\"pooling\":\"last\"}");
    Answer vectors = http_post(&d, "/v1/embeddings",
                               "{\"pooling\":\"last\",\"input\":[\"The river runs\",\"The mill\",\"The river "
                               "runs\",\"\",\"Stones and words\"]}");
    REQUIRE(all.status == 200 && vectors.status == 200);
    REQUIRE(cJSON_GetArraySize(json_at(all.json, "results")) == 4);
    CHECK(json_number(all.json, "results.0.index") == 1 && json_number(all.json, "results.0.relevance_score") == 1);
    CHECK(!strcmp(json_text(all.json, "results.0.document.text"), "The river runs"));
    CHECK(!strncmp(json_text(all.json, "id"), "rerank-", 7));
    CHECK(json_same(all.json, "usage.prompt_tokens", vectors.json, "usage.prompt_tokens"));
    double above = 2;
    const cJSON *result;
    cJSON_ArrayForEach(result, json_at(all.json, "results")) {
        double score = json_number(result, "relevance_score");
        double expected = product(vectors.json, 0, 1 + (int)json_number(result, "index"));
        CHECK_MSG(score <= above && fabs(score - expected) < 1e-5, "%g, not %g", score, expected);
        above = score;
    }
    Answer some = http_post(
        &d, "/v2/rerank",
        "{" QUERY ",\"top_n\":2,\"return_documents\":false,\"pooling\":\"last\",\"documents\":" DOCUMENTS "}");
    CHECK(cJSON_GetArraySize(json_at(some.json, "results")) == 2 && !json_at(some.json, "results.0.document"));
    CHECK(json_same(some.json, "results.1.relevance_score", all.json, "results.1.relevance_score"));
    some = http_post(&d, "/rerank", "{" QUERY ",\"pooling\":\"last\",\"texts\":[\"The mill\",\"The river runs\"]}");
    CHECK(cJSON_GetArraySize(some.json) == 2 && json_number(some.json, "0.index") == 1);
    CHECK(json_number(some.json, "0.score") == 1);
    daemon_stop(&d);
}

/* Of weights that are 0 every vector is, and none has a direction. */
TEST(embeddings_without_length) {
    static const float zeros[1 << 16];
    Daemon d;
    Edit e;
    const char *dir = test_dir();
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    edit_open(&e, dir);
    for (int i = 0; i < e.n; i++) e.out[i].data = zeros;
    edit_save(&e, dir);
    REQUIRE(daemon_start_at(&d, dir, NULL));
    Answer a = http_post(&d, "/v1/embeddings", "{\"input\":\"The mill\"}"),
           b = http_post(&d, "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"a\",\"b\"]}");
    CHECK_MSG(json_number(a.json, "data.0.embedding.0") == 0, "%s", a.body);
    CHECK_MSG(json_number(b.json, "results.0.relevance_score") == 0 && json_number(b.json, "results.0.index") == 0,
              "%s", b.body);
    daemon_stop(&d);
}

TEST(rerank_bad_requests) {
    static const Bad bad[] = {{"{\"query\":\"a\"}", 400, "documents"},
                              {"{\"query\":\"a\",\"documents\":null}", 400, "documents"},
                              {"{\"query\":\"a\",\"documents\":[]}", 400, "documents"},
                              {"{\"query\":\"a\",\"documents\":123}", 400, "documents"},
                              {"{\"query\":\"a\",\"documents\":\"b\"}", 400, "documents"},
                              {"{\"query\":\"a\",\"documents\":[\"b\",2]}", 400, "documents"},
                              {"{\"query\":\"a\",\"documents\":[{\"text\":1}]}", 400, "documents"},
                              {"{\"query\":\"a\",\"documents\":[{\"text\":\"b\",\"title\":\"c\"}]}", 400, "documents"},
                              {"{\"query\":\"a\",\"texts\":[{\"text\":\"b\"}]}", 400, "texts"},
                              {"{\"query\":\"a\",\"texts\":[\"b\"],\"documents\":[\"b\"]}", 400, "texts"},
                              {"{\"query\":[1],\"documents\":[\"b\"]}", 400, "query"},
                              {"{\"documents\":[\"b\"]}", 400, "query"},
                              {"{\"query\":\"a\",\"documents\":[\"b\"],\"top_n\":-1}", 400, "top_n"},
                              {"{\"query\":\"a\",\"texts\":[\"b\"],\"raw_scores\":true}", 400, "raw_scores"},
                              {"{\"query\":\"a\",\"texts\":[\"The mill stood below the bridge\"]}", 400, "texts"},
                              {"{\"query\":\"a\",\"documents\":[\"b\"],\"pooling\":\"max\"}", 400, "pooling"},
                              {"{\"query\":\"a\",\"documents\":[\"b\"],\"input\":\"c\"}", 400, "input"},
                              {"{\"query\":\"a\",\"documents\":[\"b\"],\"model\":\"c\"}", 404, "model"}};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--context 6"));
    check_bodies(&d, "/v1/rerank", bad, COUNTOF(bad));
    Answer a = http_post(&d, "/v1/rerank",
                         "{\"query\":\"a\",\"documents\":[\"b\",\"river river river river river river river\"]}");
    answer_check_error(&a, 400, "documents", "a long document");
    a = http_post(&d, "/v1/rerank",
                  "{\"query\":\"a\",\"truncate_prompt_tokens\":-1,\"documents\":[\"river river river river river river "
                  "river\"]}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    for (int most = 2; most <= 100; most += 98) { /* as Cohere's clients ask */
        a = http_post(&d, "/v1/rerank",
                      test_text("{\"query\":\"a\",\"max_tokens_per_doc\":%d,\"documents\":[\"river river river river "
                                "river river river\"]}",
                                most));
        CHECK_MSG(a.status == 200 && json_number(a.json, "usage.prompt_tokens") == 1 + MIN(most, 6), "%s", a.body);
    }
    a = http_post(&d, "/v1/rerank",
                  "{\"query\":\"river river river river river river river\",\"max_tokens_per_doc\":2,"
                  "\"documents\":[\"a\"]}");
    answer_check_error(&a, 400, "query", "a long query");
    a = http_post(&d, "/rerank", /* as clients of text-embeddings-inference ask */
                  "{\"query\":\"a\",\"truncate\":true,\"raw_scores\":false,\"return_text\":false,\"top_n\":0,\"texts\":"
                  "[\"river river river river river river river\",\"b\"]}");
    CHECK_MSG(a.status == 200 && cJSON_GetArraySize(a.json) == 2, "%s", a.body);
    a = http_post(&d, "/v1/embeddings", "{\"input\":\"river river river river river river river\"}");
    CHECK_MSG(a.status == 400 && strstr(a.body, "truncate_prompt_tokens: -1"), "%s", a.body);
    daemon_stop(&d);
}
