/* One number repeats an answer: what clients know as `seed` seeds the noise too. */
#include "base/err.h"
#include "model/kernels/blas.h"
#include "model/kernels/kernels.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A completion of the same prompt with these fields. */
static Answer ask(const Daemon *d, const char *fields) {
    const char *body =
        test_text("{\"prompt\":\"The mill\",\"max_tokens\":24,\"ignore_eos\":true%s%s}", *fields ? "," : "", fields);
    Answer a = http_post(d, "/v1/completions", body);
    CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
    return a;
}

static char *choices(const Daemon *d, const char *fields) {
    Answer a = ask(d, fields);
    char *raw = json_raw(a.json, "choices");
    CHECK(raw);
    return raw;
}

static void check_equal(const Daemon *d, const char *a, const char *b) {
    char *x = choices(d, a), *y = choices(d, b);
    CHECK_MSG(x && y && !strcmp(x, y), "%s\n%s\n%s\n%s", a, x, b, y);
    free(x);
    free(y);
}

static void check_seeds(const Daemon *d, const char *fields, double seed, double noise_seed) {
    Answer a = ask(d, fields);
    CHECK_MSG(json_number(a.json, "choices.0.seed") == seed, "%s: %s", fields, a.body);
    CHECK_MSG(json_number(a.json, "choices.0.noise_seed") == noise_seed, "%s: %s", fields, a.body);
}

TEST(seeds_seed_alone_repeats_everything) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_equal(&d, "\"seed\":42", "\"seed\":42");
    check_equal(&d, "\"seed\":42,\"temperature\":0,\"n\":3", "\"seed\":42,\"temperature\":0,\"n\":3");
    check_equal(&d, "\"seed\":42,\"n\":3", "\"seed\":42,\"noise_seed\":42,\"n\":3");
    check_seeds(&d, "\"seed\":42,\"noise_seed\":7", 42, 7);
    /* A drawn one too, and -1 counts as none. */
    for (int i = 0; i < 2; i++) {
        Answer a = ask(&d, i ? "\"seed\":-1" : ""), b = ask(&d, i ? "\"seed\":-1" : "\"seed\":null");
        double seed = json_number(a.json, "choices.0.seed");
        CHECK(seed == json_number(a.json, "choices.0.noise_seed"));
        CHECK(seed >= 0 && seed != json_number(b.json, "choices.0.seed"));
    }
    daemon_stop(&d);
}

/* The values are those of an independent computation of spec.md, section 6. */
TEST(seeds_of_64_bits_are_folded) {
    static const struct {
        const char *field;
        double seed;
    } cases[] = {
        {"\"seed\":9007199254740991", 9007199254740991},
        {"\"seed\":9007199254740992", 1414980677355368},
        {"\"seed\":9007199254740993", 3757300419408259},
        {"\"seed\":9223372036854775806", 5106263921663147},
        {"\"seed\":9223372036854775807", 6165828233021391},
        {"\"seed\":-9223372036854775808", 6425575012308757},
        {"\"seed\":-2", 5328849676441032},
    };
    static const char *const refused[] = {
        "{\"seed\":9223372036854775808}",
        "{\"seed\":-9223372036854775809}",
        "{\"seed\":1e18}",
        "{\"seed\":1.5}",
        "{\"seed\":\"1\"}",
        "{\"seed\":[1]}",
        "{\"seed\":true}",
        "{\"seed\":1000000000000000000000}",
        "{\"seed\":9007199254740992.5}",
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        check_seeds(&d, cases[i].field, cases[i].seed, cases[i].seed);
        check_equal(&d, cases[i].field, test_text("\"seed\":%.0f", cases[i].seed));
    }
    for (size_t i = 0; i < COUNTOF(refused); i++) {
        Answer a = http_post(&d, "/v1/completions", refused[i]);
        answer_check_error(&a, 400, "seed", refused[i]);
    }
    daemon_stop(&d);
}

TEST(seeds_null_where_there_is_no_noise) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, "\"noise_scale\":0,\"noise_seed\":5,\"seed\":1");
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.noise_seed")) && json_number(a.json, "choices.0.seed") == 1);
    a = ask(&d, "\"noise_scale\":0.001,\"seed\":1");
    CHECK(json_number(a.json, "choices.0.noise_seed") == 1);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_QUIET, NULL));
    a = ask(&d, "\"seed\":1");
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.noise_seed")));
    daemon_stop(&d);
}

TEST(seeds_of_the_daemon) {
    static const char greedy[] = "\"temperature\":0";
    Daemon d;
    char *errors;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--noise-seed 5 --noise-scale 2"));
    Answer a = ask(&d, ""), b = ask(&d, "");
    CHECK(json_number(a.json, "choices.0.noise_seed") == 5);
    CHECK(json_number(a.json, "choices.0.seed") != json_number(b.json, "choices.0.seed"));
    a = ask(&d, greedy);
    b = ask(&d, "\"temperature\":0,\"noise_seed\":5,\"noise_scale\":2");
    CHECK(!strcmp(answer_text(&a, 0), answer_text(&b, 0)));
    b = ask(&d, "\"temperature\":0,\"noise_scale\":1");
    CHECK(strcmp(answer_text(&a, 0), answer_text(&b, 0)) != 0);
    check_seeds(&d, "\"seed\":9", 9, 9);
    check_seeds(&d, "\"seed\":9,\"noise_seed\":8", 9, 8);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--noise-scale 0"));
    a = ask(&d, "\"seed\":9");
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.noise_seed")));
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--seed 7"));
    a = ask(&d, ""), b = ask(&d, "\"seed\":7");
    CHECK(json_number(a.json, "choices.0.seed") == 7 && json_number(a.json, "choices.0.noise_seed") == 7);
    CHECK(!strcmp(answer_text(&a, 0), answer_text(&b, 0)));
    a = http_get(&d, "/props");
    CHECK(json_number(a.json, "default_generation_settings.params.seed") == 7);
    check_seeds(&d, "\"seed\":9", 9, 9);
    check_seeds(&d, "\"noise_seed\":8", 7, 8);
    daemon_stop(&d);
    static const char *const wrong[] = {"--seed -1", "--noise-seed -1", "--noise-seed 9007199254740992",
                                        "--noise-scale 8.1", "--noise-scale -1"};
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        CHECK_MSG(daemon_run(wrong[i], &errors) == 2, "%s: %s", wrong[i], errors);
        free(errors);
    }
}

/* A stream that goes on at another server: refused where the bytes may be others. */
TEST(seeds_if_fingerprint) {
    Daemon d, other;
    const char *dir = test_dir();
    REQUIRE(dir && test_checkpoint_write(dir, CHECKPOINT_SMALL, 2));
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL) && daemon_start_at(&other, dir, NULL));
    Answer a = ask(&d, "\"seed\":4");
    char body[512], *first = json_raw(a.json, "choices.0.text");
    snprintf(body, sizeof body,
             "{\"prompt\":\"The mill\",\"max_tokens\":24,\"ignore_eos\":true,\"seed\":4,\"if_fingerprint\":\"%s\"}",
             json_text(a.json, "system_fingerprint"));
    Answer again = http_post(&d, "/v1/completions", body), refused = http_post(&other, "/v1/completions", body);
    char *second = json_raw(again.json, "choices.0.text");
    CHECK_MSG(first && second && !strcmp(first, second), "%s", again.body);
    answer_check_error(&refused, 409, "if_fingerprint", body);
    a = http_post(&d, "/v1/completions", "{\"prompt\":\"a\",\"if_fingerprint\":1}");
    answer_check_error(&a, 400, "if_fingerprint", "a number");
    free(first);
    free(second);
    daemon_stop(&d);
    daemon_stop(&other);
}

/* A chat's fingerprint names its template too. */
TEST(seeds_if_fingerprint_of_a_chat) {
    static const char chat[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":2,\"if_fingerprint\":%s%s%s}";
    Daemon d;
    char body[512];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer text = ask(&d, "\"seed\":4");
    snprintf(body, sizeof body, chat, "null", "", "");
    Answer first = http_post(&d, "/v1/chat/completions", body);
    snprintf(body, sizeof body, chat, "\"", json_text(first.json, "system_fingerprint"), "\"");
    Answer again = http_post(&d, "/v1/chat/completions", body);
    CHECK_MSG(again.status == 200, "%s", again.body);
    snprintf(body, sizeof body, chat, "\"", json_text(text.json, "system_fingerprint"), "\"");
    Answer refused = http_post(&d, "/v1/chat/completions", body);
    answer_check_error(&refused, 409, "if_fingerprint", body);
    daemon_stop(&d);
}

static void check_arithmetic(const char *dir, const char *isa, const char *want) {
    Daemon d;
    test_env("NOISED_ISA", isa);
    REQUIRE(daemon_start_at(&d, dir, NULL));
    Answer a = http_post(&d, "/v1/completions", "{\"prompt\":[1,2],\"max_tokens\":1}");
    REQUIRE(a.status == 200);
    const char *fingerprint = json_text(a.json, "system_fingerprint"),
               *last = strchr(strchr(fingerprint, '-') + 1, '-');
    CHECK_MSG(last && !strcmp(last + 1, want), "%s on %s has %s, not %s", dir, isa, fingerprint, want);
    daemon_stop(&d);
}

/* Only bf16 products on amx, and all on blas, have bits of their own; ref computes for an OpenBLAS that is not fit. */
TEST(seeds_fingerprint_names_the_arithmetic) {
    const Kernels *all[KERNELS_LEVELS];
    const Config c = test_checkpoint_config();
    int n = kernels_available(all);
    const char *bf16 = test_dir();
    char blas[64], version[16] = "";
    test_checkpoint_save(bf16, &c, DTYPE_BF16);
    sscanf(openblas_get_config(), "OpenBLAS %15s", version);
    snprintf(blas, sizeof blas, "blas-%s-%s", openblas_get_corename(), version);
    if (blas_fault()) strcpy(blas, "common");
    for (int i = MAX(n - 2, 0); i < n; i++) {
        bool is_blas = !strcmp(all[i]->name, "blas"), amx = !strcmp(all[i]->name, "amx");
        check_arithmetic(test_checkpoint(CHECKPOINT_SMALL), all[i]->name, is_blas ? blas : "common");
        check_arithmetic(bf16, all[i]->name, is_blas ? blas : amx ? "amx" : "common");
    }
    check_arithmetic(test_checkpoint(CHECKPOINT_SMALL), "blas", blas);
    check_arithmetic(bf16, "blas", blas);
}
