/* POST /v1/classify, /v1/tag and /v1/fill-mask: what a client reads is what a forward pass here gives. */
#include "base/err.h"
#include "base/memory.h"
#include "model/sampler.h"
#include "model/shape.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/pictures.h"
#include "weights/checkpoint.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

static Answer ask(const Daemon *d, const char *path, const char *body) {
    Answer a = http_post(d, path, body);
    CHECK_MSG(a.status == 200, "%s %s: %d %s", path, body, a.status, a.body);
    return a;
}

/* The logits of one sequence of the checkpoint, [rows, outputs], as the trainer evaluates. */
static float *logits_of(TestCheckpoint kind, const int *ids, const float *image, int n, uint64_t seed, int *rows) {
    Checkpoint c;
    Err err;
    if (checkpoint_open(&c, test_checkpoint(kind), &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        return NULL;
    }
    Tape t;
    tape_init(&t, false);
    Segment all = {.n = n, .noise = {.seed = seed, .scale = 1}};
    Batch b = {.tokens = ids, .images = image, .n = n, .segments = &all, .n_segments = 1};
    const Mat *y = model_forward(&c.model, &t, &b, NULL);
    size_t bytes = (size_t)y->n * (size_t)y->d * sizeof(float);
    float *out = memcpy(malloc(bytes), y->x, bytes);
    *rows = y->n;
    tape_free(&t);
    checkpoint_close(&c);
    return out;
}

/* An independent softmax: in long double. */
static void check_probabilities(const cJSON *probs, const float *logits, int n, const char *what) {
    long double sum = 0;
    CHECK_MSG(cJSON_GetArraySize(probs) == n, "%s: %d probabilities", what, cJSON_GetArraySize(probs));
    for (int i = 0; i < n; i++) sum += expl((long double)logits[i]);
    for (int i = 0; i < n; i++) {
        double told = cJSON_GetArrayItem(probs, i) ? cJSON_GetArrayItem(probs, i)->valuedouble : NAN;
        double right = (double)(expl((long double)logits[i]) / sum);
        CHECK_MSG(fabs(told - right) <= 1e-7 * right, "%s, class %d: %.9g, not %.9g", what, i, told, right);
    }
}

TEST(classify_is_a_forward_pass) {
    Daemon d;
    int rows;
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, NULL));
    Answer a = ask(&d, "/v1/classify", "{\"input\":[[5,6,7,8,9],[10,11]],\"seed\":3}");
    float *first = logits_of(CHECKPOINT_CLASSES, (int[]){5, 6, 7, 8, 9}, NULL, 5, 3, &rows);
    float *second = logits_of(CHECKPOINT_CLASSES, (int[]){10, 11}, NULL, 2, 3, &rows);
    check_probabilities(json_at(a.json, "data.0.probs"), first, 2, "first");
    check_probabilities(json_at(a.json, "data.1.probs"), second, 2, "second");
    CHECK(json_number(a.json, "data.1.index") == 1 && json_number(a.json, "data.0.num_classes") == 2);
    CHECK_MSG(!strcmp(json_text(a.json, "data.0.label"), first[0] >= first[1] ? "NEG" : "POS"), "%s", a.body);
    CHECK(json_number(a.json, "noise_seed") == 3 && json_number(a.json, "usage.prompt_tokens") == 7);
    free(first);
    free(second);
    a = ask(&d, "/v1/embeddings", "{\"input\":[5,6,7]}");
    CHECK(cJSON_GetArraySize(json_at(a.json, "data.0.embedding")) == 32);
    daemon_stop(&d);
}

/* The mean of what single requests are told, bit for bit, and what follows from them. */
TEST(classify_noise_samples) {
    enum { SAMPLES = 5 };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, NULL));
    Answer a = ask(&d, "/v1/classify", "{\"input\":\"The mill\",\"noise_seed\":9,\"noise_samples\":5}");
    double sum[2] = {0}, squares[2] = {0}, inside = 0, outside = 0;
    for (int s = 0; s < SAMPLES; s++) {
        Answer one =
            ask(&d, "/v1/classify",
                test_text("{\"input\":\"The mill\",\"noise_seed\":%llu}", (unsigned long long)choice_seed(9, s)));
        CHECK(!json_at(one.json, "data.0.spread"));
        for (int k = 0; k < 2; k++) {
            double p = json_number(one.json, k ? "data.0.probs.1" : "data.0.probs.0");
            sum[k] += (double)(float)p;
            squares[k] += p * p;
            inside -= p * log(p) / SAMPLES;
        }
    }
    for (int k = 0; k < 2; k++) {
        double mean = json_number(a.json, k ? "data.0.probs.1" : "data.0.probs.0");
        double spread = json_number(a.json, k ? "data.0.spread.1" : "data.0.spread.0");
        CHECK_MSG((float)mean == (float)(sum[k] / SAMPLES), "%.9g, not %.9g", mean, sum[k] / SAMPLES);
        CHECK_MSG(fabs(spread * spread - (squares[k] / SAMPLES - mean * mean)) < 1e-7 && spread > 0, "%g", spread);
        outside -= mean * log(mean);
    }
    CHECK_MSG(fabs(json_number(a.json, "data.0.mutual_information") - (outside - inside)) < 1e-6, "%s", a.body);
    CHECK(json_number(a.json, "noise_samples") == SAMPLES);
    daemon_stop(&d);
}

TEST(tag_words_and_entities) {
    static const char text[] = "  Gr\xC3\xBC\xC3\x9F"
                               "e  aus\tK\xC3\xB6ln , said the miller";
    static const char *const words[] = {"Gr\xC3\xBC\xC3\x9F"
                                        "e",
                                        "aus",
                                        "K\xC3\xB6ln",
                                        ",",
                                        "said",
                                        "the",
                                        "miller"};
    static const int starts[] = {2, 9, 13, 18, 20, 25, 29};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_TAGS, NULL));
    char joined[256] = "";
    Answer a = ask(&d, "/v1/tag",
                   test_text("{\"input\":\"  Gr\xC3\xBC\xC3\x9F"
                             "e  aus\\tK\xC3\xB6ln , said the miller\",\"seed\":1}"));
    Checkpoint c;
    Err err;
    REQUIRE(checkpoint_open(&c, test_checkpoint(CHECKPOINT_TAGS), &err) == 0);
    TokenList ids = {0};
    int row[COUNTOF(words)], rows;
    for (size_t w = 0; w < COUNTOF(words); w++) {
        strcat(strcat(joined, w ? " " : ""), words[w]);
        ids.n = 0;
        CHECK(tokenizer_encode(c.tokenizer, joined, strlen(joined), true, &ids, &err) == 0);
        row[w] = (int)ids.n - 1;
    }
    float *logits = logits_of(CHECKPOINT_TAGS, ids.ids, NULL, (int)ids.n, 1, &rows);
    CHECK(cJSON_GetArraySize(json_at(a.json, "data.0.tokens")) == COUNTOF(words));
    int outside = 0;
    for (size_t w = 0; w < COUNTOF(words); w++) {
        const cJSON *token = json_at(a.json, test_text("data.0.tokens.%zu", w));
        const float *x = logits + 4 * row[w];
        int best = 0;
        double sum = 0;
        for (int k = 0; k < 4; k++) best = x[k] > x[best] ? k : best, sum += exp((double)x[k]);
        CHECK_MSG(!strcmp(json_text(token, "text"), words[w]), "%s", json_text(token, "text"));
        CHECK(json_number(token, "start") == starts[w]);
        CHECK_MSG(!strcmp(json_text(token, "label"), labels_name(&c.labels, best)), "%s", json_text(token, "label"));
        CHECK(fabs(json_number(token, "score") - exp((double)x[best]) / sum) < 1e-6);
        outside += best == 0;
    }
    const cJSON *entities = json_at(a.json, "data.0.entities"), *e;
    int covered = 0;
    cJSON_ArrayForEach(e, entities) {
        CHECK(strcmp(json_text(e, "label"), "PER") == 0 || strcmp(json_text(e, "label"), "LOC") == 0);
        for (size_t w = 0; w < COUNTOF(words); w++)
            covered += starts[w] >= json_number(e, "start") && starts[w] < json_number(e, "end");
    }
    CHECK_MSG(covered + outside == COUNTOF(words), "%s", a.body);
    CHECK(strlen(text) > 0);
    free(logits);
    token_list_free(&ids);
    checkpoint_close(&c);
    daemon_stop(&d);
}

TEST(fill_mask_candidates) {
    Daemon d;
    int rows;
    static const int ids[] = {5, 7, 9, 7, 11};
    REQUIRE(daemon_start(&d, CHECKPOINT_MASKS, NULL));
    Answer a = ask(&d, "/v1/fill-mask", "{\"input\":[5,7,9,7,11],\"top_k\":3,\"seed\":2}");
    float *logits = logits_of(CHECKPOINT_MASKS, ids, NULL, 5, 2, &rows);
    for (int m = 0; m < 2; m++) {
        const float *x = logits + (1 + 2 * m) * 320;
        double sum = 0, last = 2;
        for (int i = 0; i < 320; i++) sum += exp((double)x[i]);
        CHECK(cJSON_GetArraySize(json_at(a.json, test_text("data.0.masks.%d.candidates", m))) == 3);
        for (int k = 0; k < 3; k++) {
            const cJSON *candidate = json_at(a.json, test_text("data.0.masks.%d.candidates.%d", m, k));
            int token = (int)json_number(candidate, "token"), better = 0;
            double score = json_number(candidate, "score");
            for (int i = 0; i < 320; i++) better += x[i] > x[token];
            CHECK_MSG(better == k && score <= last, "%s", a.body);
            CHECK(fabs(score - exp((double)x[token]) / sum) < 1e-6);
            CHECK(json_text(candidate, "token_str") && json_text(candidate, "sequence"));
            last = score;
        }
        CHECK(json_number(a.json, m ? "data.0.masks.1.position" : "data.0.masks.0.position") == 1 + 2 * m);
    }
    free(logits);
    daemon_stop(&d);
}

/* Of the tokens around a text none is in the texts with candidates. Token 7 is an apostrophe. */
TEST(fill_mask_between_tokens) {
    const char *dir = test_dir();
    Daemon d;
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_MASKS, 1));
    test_tokens_around(dir, "<|endoftext|>", "<|endoftext|>");
    REQUIRE(daemon_start_at(&d, dir, NULL));
    Answer a = ask(&d, "/v1/fill-mask", "{\"input\":\"ab'\",\"top_k\":1}");
    const cJSON *candidate = json_at(a.json, "data.0.masks.0.candidates.0");
    const char *sequence = json_text(candidate, "sequence"), *token = json_text(candidate, "token_str");
    CHECK_MSG(json_number(a.json, "data.0.masks.0.position") == 3 && sequence && token &&
                  !strcmp(sequence, test_text("ab%s", token)),
              "%s", a.body);
    daemon_stop(&d);
}

/* A candidate's score is the mean over the seeds, and its spread their deviation. */
TEST(fill_mask_noise_samples) {
    enum { SAMPLES = 3 };
    static const int ids[] = {5, 7, 9};
    Daemon d;
    int rows;
    REQUIRE(daemon_start(&d, CHECKPOINT_MASKS, NULL));
    Answer a = ask(&d, "/v1/fill-mask", "{\"input\":[5,7,9],\"top_k\":2,\"noise_seed\":9,\"noise_samples\":3}");
    for (int k = 0; k < 2; k++) {
        const cJSON *candidate = json_at(a.json, test_text("data.0.masks.0.candidates.%d", k));
        int token = (int)json_number(candidate, "token");
        double mean = 0, squares = 0;
        for (int s = 0; s < SAMPLES; s++) {
            float *x = logits_of(CHECKPOINT_MASKS, ids, NULL, 3, choice_seed(9, s), &rows) + 320;
            double sum = 0;
            for (int i = 0; i < 320; i++) sum += exp((double)x[i]);
            double p = exp((double)x[token]) / sum;
            mean += p / SAMPLES;
            squares += p * p / SAMPLES;
            free(x - 320);
        }
        double spread = json_number(candidate, "spread");
        CHECK_MSG(fabs(json_number(candidate, "score") - mean) < 1e-6, "%s", a.body);
        CHECK_MSG(fabs(spread - sqrt(squares - mean * mean)) < 1e-6 && spread > 1e-5, "%s", a.body);
    }
    daemon_stop(&d);
}

/* {"input":{"image":"data:..."}} of a picture, malloc'ed; `cut` bytes are missing at its end. */
static char *picture_body(const unsigned char *bytes, int width, int height, int format, size_t cut) {
    char *url = test_picture_url(bytes, width, height, format, cut), *body = xmalloc(strlen(url) + 64);
    sprintf(body, "{\"input\":{\"image\":\"%s\"},\"seed\":4}", url);
    free(url);
    return body;
}

TEST(classify_pictures) {
    Daemon d;
    int rows;
    unsigned char grey[24], colours[72];
    float image[24];
    static const unsigned char large[256 * 256] = {0};
    for (int i = 0; i < 24; i++) {
        grey[i] = (unsigned char)(37 * i);
        memset(colours + 3 * i, grey[i], 3);
        image[i] = (float)grey[i] / 127.5f - 1;
    }
    REQUIRE(daemon_start(&d, CHECKPOINT_IMAGES, NULL));
    float *logits = logits_of(CHECKPOINT_IMAGES, NULL, image, 7, 4, &rows);
    for (int rgb = 0; rgb < 2; rgb++) {
        char *body = picture_body(rgb ? colours : grey, 6, 4, rgb ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY, 0);
        Answer a = ask(&d, "/v1/classify", body);
        check_probabilities(json_at(a.json, "data.0.probs"), logits, 3, rgb ? "grey in colours" : "grey");
        free(body);
    }
    const struct {
        const char *what, *body;
    } bad[] = {
        {"another size", picture_body(grey, 4, 6, PNG_FORMAT_GRAY, 0)},
        {"much too large", picture_body(large, 256, 256, PNG_FORMAT_GRAY, 0)},
        {"truncated", picture_body(grey, 6, 4, PNG_FORMAT_GRAY, 20)},
        {"almost nothing", picture_body(grey, 6, 4, PNG_FORMAT_GRAY, 60)},
        {"no PNG", strdup("{\"input\":{\"image\":\"data:image/png;base64,QUJD\"}}")},
        {"no base64", strdup("{\"input\":{\"image\":\"data:image/png;base64,@@@@\"}}")},
        {"no padding", strdup("{\"input\":{\"image\":\"data:image/png;base64,QUI\"}}")},
        {"nothing", strdup("{\"input\":{\"image\":\"data:image/png;base64,\"}}")},
        {"a JPEG", strdup("{\"input\":{\"image\":\"data:image/jpeg;base64,QUJD\"}}")},
    };
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        Answer a = http_post(&d, "/v1/classify", bad[i].body);
        answer_check_error(&a, 400, "input.image", bad[i].what);
        free((void *)bad[i].body);
    }
    free(logits);
    daemon_stop(&d);
}

static void check_bad(TestCheckpoint kind, const char *path, const Bad *bad, size_t n) {
    Daemon d;
    REQUIRE(daemon_start(&d, kind, NULL));
    check_bodies(&d, path, bad, n);
    daemon_stop(&d);
}

TEST(tasks_bad_requests) {
    static const Bad classify[] = {
        {"{}", 400, "input"},
        {"{\"input\":[]}", 400, "input"},
        {"{\"input\":{\"image\":\"\"}}", 400, "input"},
        {"{\"input\":[[320]]}", 400, "input"},
        {"{\"input\":\"a\",\"noise_samples\":0}", 400, "noise_samples"},
        {"{\"input\":\"a\",\"noise_samples\":65}", 400, "noise_samples"},
        {"{\"input\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"noise_samples\":64}", 400, "noise_samples"},
        {"{\"input\":\"a\",\"truncate\":1}", 400, "truncate"},
        {"{\"input\":\"a\",\"top_k\":1}", 400, "top_k"},
        {"{\"input\":\"a\",\"model\":\"x\"}", 404, "model"},
    };
    static const Bad tag[] = {
        {"{\"input\":\" \\t\"}", 400, "input"},
        {"{\"input\":[1,2]}", 400, "input"},
        {"{\"input\":[]}", 400, "input"},
        {"{\"input\":\"a\",\"noise_scale\":9}", 400, "noise_scale"},
    };
    static const Bad mask[] = {
        {"{\"input\":[1,2]}", 400, "input"},
        {"{\"input\":[7],\"top_k\":0}", 400, "top_k"},
        {"{\"input\":[7],\"top_k\":101}", 400, "top_k"},
    };
    static const Bad picture[] = {
        {"{\"input\":\"a\"}", 400, "input"},
        {"{\"input\":[]}", 400, "input"},
        {"{\"input\":[{\"image\":1}]}", 400, "input"},
        {"{\"input\":{\"image\":\"x\",\"more\":1}}", 400, "input"},
    };
    check_bad(CHECKPOINT_CLASSES, "/v1/classify", classify, COUNTOF(classify));
    check_bad(CHECKPOINT_TAGS, "/v1/tag", tag, COUNTOF(tag));
    check_bad(CHECKPOINT_MASKS, "/v1/fill-mask", mask, COUNTOF(mask));
    check_bad(CHECKPOINT_IMAGES, "/v1/classify", picture, COUNTOF(picture));
}

/* 4 texts of 128 masks, 128 times each, over 320 tokens: more than 2^24 numbers. */
TEST(tasks_answers_of_many_numbers) {
    char body[4 * 520 + 64] = "{\"input\":[", *end = body + strlen(body);
    Daemon d;
    for (int i = 0; i < 4 * 128; i++)
        end += sprintf(end, "%s7%s", i % 128 ? "," : i ? ",[" : "[", i % 128 < 127 ? "" : "]");
    strcpy(end, "],\"noise_samples\":128}");
    REQUIRE(daemon_start(&d, CHECKPOINT_MASKS, "--max-n 128 --max-queue 512"));
    Answer a = http_post(&d, "/v1/fill-mask", body);
    answer_check_error(&a, 400, "input", body);
    CHECK_MSG(strstr(a.body, "the answer is made of 20971520 numbers, the limit is 16777216"), "%s", a.body);
    /* 100 candidates of 128 masks, each with the 128 tokens of the text */
    *strchr(body, ']') = 0;
    strcat(body, "]],\"top_k\":100}");
    a = http_post(&d, "/v1/fill-mask", body);
    answer_check_error(&a, 400, "top_k", body);
    CHECK_MSG(strstr(a.body, "have 1638400 tokens up to input 0, the limit is 1048576"), "%s", a.body);
    daemon_stop(&d);
}

/* A route that the model's task lacks names the task. */
TEST(tasks_of_another_model) {
    static const struct {
        TestCheckpoint kind;
        const char *task;
    } models[] = {{CHECKPOINT_SMALL, "text-generation"},
                  {CHECKPOINT_CLASSES, "text-classification"},
                  {CHECKPOINT_TAGS, "token-classification"},
                  {CHECKPOINT_MASKS, "fill-mask"}};
    static const char *const routes[] = {"/v1/completions", "/v1/classify", "/v1/tag", "/v1/fill-mask"};
    for (size_t m = 0; m < COUNTOF(models); m++) {
        Daemon d;
        REQUIRE(daemon_start(&d, models[m].kind, NULL));
        for (size_t r = 0; r < COUNTOF(routes); r++) {
            if (r == m) continue;
            Answer a = http_post(&d, routes[r], r ? "{\"input\":\"The mill\"}" : "{\"prompt\":\"The mill\"}");
            CHECK_MSG(a.status == 400 && strstr(json_text(a.json, "error.message"), models[m].task), "%s: %s",
                      routes[r], a.body);
        }
        daemon_stop(&d);
    }
}

/* Whatever else the request has, even what such a model has nothing to read it with. */
TEST(tasks_come_before_forms) {
    static const TestCheckpoint kinds[] = {CHECKPOINT_CLASSES, CHECKPOINT_IMAGES};
    static const char *const bodies[] = {"{\"regex\":\"a\"}", "{\"choice\":[\"a\"]}", "{\"bad_words\":[\"a\"]}",
                                         "{\"logit_bias\":{\"a\":1}}"};
    for (size_t k = 0; k < COUNTOF(kinds); k++) {
        Daemon d;
        REQUIRE(daemon_start(&d, kinds[k], NULL));
        for (size_t i = 0; i < COUNTOF(bodies); i++) {
            Answer a = http_post(&d, "/v1/completions", bodies[i]);
            CHECK_MSG(a.status == 400 && strstr(a.body, "\"wrong_task\""), "%s: %s", bodies[i], a.body);
        }
        daemon_stop(&d);
    }
}

TEST(tasks_of_a_model_of_images) {
    static const char *const routes[] = {"/v1/completions", "/v1/tag", "/v1/fill-mask", "/v1/embeddings"};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_IMAGES, NULL));
    for (size_t r = 0; r < COUNTOF(routes); r++) {
        Answer a = http_post(&d, routes[r], r ? "{\"input\":\"The mill\"}" : "{\"prompt\":\"The mill\"}");
        CHECK_MSG(a.status == 400 && !strcmp(json_text(a.json, "error.code"), "wrong_task") &&
                      strstr(json_text(a.json, "error.message"), "image-classification"),
                  "%s: %s", routes[r], a.body);
    }
    daemon_stop(&d);
}

TEST(tasks_truncate) {
    Daemon d;
    char *body = malloc(8192), *end = body + sprintf(body, "{\"input\":[1");
    for (int i = 0; i < 600; i++) end += sprintf(end, ",%d", i % 300);
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, NULL));
    strcpy(end, "]}");
    Answer a = http_post(&d, "/v1/classify", body);
    answer_check_error(&a, 400, "input", "beyond the context");
    strcpy(end, "],\"truncate\":true}");
    a = ask(&d, "/v1/classify", body);
    CHECK(cJSON_IsTrue(json_at(a.json, "data.0.truncated")) && json_number(a.json, "usage.prompt_tokens") == 512);
    free(body);
    daemon_stop(&d);
}

/* An option that such a model has no use for is not ignored in silence. */
TEST(tasks_have_no_cache) {
    static const char *const options[] = {"--context 64", "--kv-tokens 64", "--kv-dtype f32", "--kv compact"};
    const char *dir = test_dir();
    const char *log = test_text("%s/log", dir);
    for (size_t i = 0; i < COUNTOF(options); i++) {
        Daemon d;
        size_t name = strcspn(options[i], " "), n;
        test_write_file(log, "", 0);
        daemon_log_to(log);
        if (daemon_start(&d, CHECKPOINT_CLASSES, options[i])) daemon_stop(&d);
        daemon_log_to(NULL);
        char *text = test_read_file(log, &n);
        const char *told = text ? strstr(text, " does nothing here: the model keeps no cache") : NULL;
        CHECK_MSG(told && !memcmp(told - name, options[i], name), "%s: %s", options[i], text ? text : "");
        free(text);
    }
}

/* As many words as a text of its length can have, which once wrote behind the last one's place. */
TEST(tag_words_of_one_letter) {
    static const struct {
        const char *text;
        int n;
    } texts[] = {{"a", 1}, {"a b", 2}, {" a b ", 2}, {"a b c", 3}, {"a b c d e f g h", 8}};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_TAGS, NULL));
    for (size_t i = 0; i < 40 * COUNTOF(texts); i++) {
        Answer a = ask(&d, "/v1/tag", test_text("{\"input\":\"%s\"}", texts[i % COUNTOF(texts)].text));
        CHECK(cJSON_GetArraySize(json_at(a.json, "data.0.tokens")) == texts[i % COUNTOF(texts)].n);
    }
    CHECK(daemon_stop(&d) == 0);
}
