/* noised-train sample, beside the daemon. */
#include "base/err.h"
#include "model/kind.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/text/sample.h"

#include <stdlib.h>
#include <string.h>

/* A folder with the demo's files. */
static const char *copy_demo(void) {
    const char *dir = test_dir();
    bool copied =
        system(test_text("cp weights/demo/config.json weights/demo/*.safetensors weights/demo/t*.json %s", dir)) == 0;
    return copied ? dir : NULL;
}

static void check_same(const Daemon *d, const char *model, const char *options, const char *fields) {
    char *text;
    ChildResult r = trainer_run(test_text("sample --model %s --prompt Whenever --max-tokens 40 %s", model, options));
    Answer a = http_post(d, "/v1/completions", test_text("{\"prompt\":\"Whenever\",\"max_tokens\":40,%s}", fields));
    const char *want = answer_text(&a, 0);
    REQUIRE(r.status == 0 && want);
    text = strstr(r.output, "Whenever");
    size_t n = strlen(want);
    CHECK_MSG(text && !strncmp(text + 8, want, n) && !strcmp(text + 8 + n, "\n"), "%s\nagainst %s", r.output, want);
    CHECK_MSG(!strncmp(r.output, "seed ", 5), "%s", r.output);
    free(r.output);
}

TEST(sample_says_what_the_daemon_says) {
    Daemon d;
    REQUIRE(daemon_start_at(&d, "weights/demo", NULL));
    check_same(&d, "weights/demo", "--seed 7 --noise-seed 1",
               "\"seed\":7,\"noise_seed\":1,\"temperature\":0.8,\"top_k\":50");
    check_same(&d, "weights/demo", "--seed 8 --noise-seed 2 --noise-scale 8 --temperature 1.2 --top-k 0 --top-p 0.9",
               "\"seed\":8,\"noise_seed\":2,\"noise_scale\":8,\"temperature\":1.2,\"top_p\":0.9");
    check_same(&d, "weights/demo", "--noise-seed 3 --noise-scale 4 --temperature 0 --repetition-penalty 1.3",
               "\"noise_seed\":3,\"noise_scale\":4,\"temperature\":0,\"repetition_penalty\":1.3");
    daemon_stop(&d);
}

TEST(sample_puts_the_tokenizers_token_behind_a_prompt) {
    Daemon d;
    const char *dir = copy_demo();
    REQUIRE(dir);
    test_tokens_around(dir, NULL, "<|endoftext|>");
    REQUIRE(daemon_start_at(&d, dir, NULL));
    check_same(&d, dir, "--seed 7", "\"seed\":7,\"temperature\":0.8,\"top_k\":50");
    daemon_stop(&d);
}

/* At the comma here, which is not the first of the tokens that do. */
TEST(sample_stops_at_every_end) {
    Daemon d;
    const char *dir = copy_demo();
    REQUIRE(dir && daemon_start_at(&d, dir, NULL));
    Answer a = http_post(&d, "/tokenize", "{\"prompt\":\",\"}");
    const char *end = test_text("{\"eos_token_id\":%d}", (int)json_number(a.json, "tokens.0"));
    daemon_stop(&d);
    test_write_text(dir, "generation_config.json", end);
    REQUIRE(daemon_start_at(&d, dir, NULL));
    check_same(&d, dir, "--seed 7 --noise-seed 1 --temperature 1", "\"seed\":7,\"noise_seed\":1,\"top_k\":50");
    a = http_post(&d, "/v1/completions",
                  "{\"prompt\":\"Whenever\",\"seed\":7,\"noise_seed\":1,\"max_tokens\":40,"
                  "\"top_k\":50}");
    CHECK_MSG(json_number(a.json, "usage.completion_tokens") < 40, "no comma in 40 tokens, choose another seed: %s",
              a.body);
    daemon_stop(&d);
}

TEST(sample_refuses_what_has_no_room) {
    ChildResult r = trainer_run("sample --model weights/demo --prompt Whenever --max-tokens 1000");
    CHECK_MSG(r.status == 1 && strstr(r.output, "the model has 512") && !strstr(r.output, "Whenever"), "%s", r.output);
    free(r.output);
    r = trainer_run("sample --model weights/demo --prompt Whenever --threads 1");
    CHECK_MSG(r.status == 0 && strstr(r.output, "noise_seed"), "%s", r.output);
    free(r.output);
}

/* A prompt as long as the context; and nobody is told of seeds of noise that there is none of. */
TEST(sample_takes_long_prompts) {
    const char *model = test_dir();
    char args[4096] = "sample --model ";
    Config c = test_config(attention_kind_find("mha"));
    c.vocab_size = TEST_VOCAB;
    c.bos_token_id = c.eos_token_id = TEST_EOS;
    REQUIRE(test_checkpoint_write_as(model, &c, DTYPE_F32, 1));
    sprintf(args + strlen(args), "%s --max-tokens 1 --prompt ", model);
    for (int i = 0; i < 450; i++) strcat(args, "Whence");
    ChildResult r = trainer_run(args);
    CHECK_MSG(r.status == 1 && strstr(r.output, " tokens of prompt and 1 more need "), "%s", r.output);
    free(r.output);
    strcpy(strstr(args, "Whence") + 6, "");
    r = trainer_run(args);
    CHECK_MSG(r.status == 0 && !strstr(r.output, "noise"), "%s", r.output);
    free(r.output);
}

TEST(sample_ends_at_a_sentence) {
    static const char *const texts[][2] = {
        {"One. Two.  Thr", "One. Two."},
        {"\"Go!\" he sa", "\"Go!\""},
        {"no end", "no end"},
        {"3.14 is less than", "3.14 is less than"},
        {"Well? (Yes.) And", "Well? (Yes.)"},
        {"", ""},
    };
    for (size_t i = 0; i < COUNTOF(texts); i++)
        CHECK_MSG(sample_sentences(texts[i][0], strlen(texts[i][0])) == strlen(texts[i][1]), "%s", texts[i][0]);
}

TEST(sample_during_training) {
    const char *dir = test_dir(), *text = trainer_text_file(20000), *config = trainer_config_file();
    ChildResult r = trainer_run(
        test_text("pretrain --config %s --data %s --out %s/a --steps 20 --batch 2 --eval-every 0 --sample-every 10",
                  config, text, dir));
    CHECK_MSG(r.status == 0 && strstr(r.output, "step 10: sample: ") && strstr(r.output, "step 20: sample: "), "%s",
              r.output);
    free(r.output);
    const char *path = test_text("%s/a/log.jsonl", dir);
    char *log = test_read_file(path, NULL);
    CHECK(log && strstr(log, "\"sample\":\""));
    free(log);
}
