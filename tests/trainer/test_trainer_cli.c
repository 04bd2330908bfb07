/* noised-train as a user meets it: what it refuses and how, and whole small runs. */
#include "base/err.h"
#include "base/files.h"
#include "base/json/json.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct World {
    const char *dir, *text, *config; /* text of 20,000 bytes */
    char latin[PATH_BYTES];          /* %L, beside the text */
} World;

static World world_open(void) {
    World w = {.dir = test_dir(), .text = trainer_text_file(20000), .config = trainer_config_file()};
    snprintf(w.latin, sizeof w.latin, "%s.latin1", w.text);
    FILE *f = fopen(w.latin, "w");
    BUG_ON(!f || fputs("a line\nun \xE9t\xE9\n", f) < 0 || fclose(f));
    return w;
}

/* %D = the folder, %T = the text, %L = one in Latin-1, %C = the config. */
static ChildResult run_in(const World *w, const char *args) {
    char full[4096] = "";
    size_t used = 0;
    for (const char *p = args; *p; p++) {
        const char *value = *p != '%'     ? NULL
                            : p[1] == 'D' ? w->dir
                            : p[1] == 'T' ? w->text
                            : p[1] == 'L' ? w->latin
                                          : w->config;
        used += (size_t)snprintf(full + used, sizeof full - used, value ? "%s" : "%.1s", value ? value : p);
        BUG_ON(used >= sizeof full);
        if (value) p++;
    }
    return trainer_run(full);
}

static void check_run(const World *w, const char *args, int status, const char *output) {
    ChildResult r = run_in(w, args);
    CHECK_MSG(r.status == status && strstr(r.output, output), "%s\n    gave %d, wanted %d: %s\n    lacks \"%s\"", args,
              r.status, status, r.output, output);
    free(r.output);
}

static bool is_empty(const char *dir) {
    bool empty = rmdir(dir) == 0;
    return empty && mkdir(dir, 0700) == 0;
}

typedef struct Refused {
    const char *args, *message;
    int status;
} Refused;

static const Refused bad_words[] = {
    {"", "usage:", 2},
    {"trian", "unknown command \"trian\"", 2},
    {"pretrain --stpes 5", "unknown option --stpes; did you mean --steps?", 2},
    {"pretrain steps", "\"steps\" is one word too many", 2},
    {"pretrain --steps", "--steps needs a value (N)", 2},
    {"pretrain --steps --lr 1", "--steps needs a value (N)", 2},
    {"pretrain --steps 0", "--steps is 0, must be 1 to", 2},
    {"pretrain --steps 1e-3", "--steps: \"1e-3\" is not an integer", 2},
    {"tokenizer --data %L --vocab-size 258 --out %D/l.json", "line 2, byte 10: 0xE9 is no UTF-8", 1},
    {"pretrain --config %C --data %L --out %D/l", "iconv -f latin1 -t utf-8 ", 1},
    {"pretrain --config %C --data %T --val %L --out %D/l", "line 2, byte 10: 0xE9 is no UTF-8", 1},
    {"pretrain --steps 99999999999999999999", "--steps is 99999999999999999999, must be", 2},
    {"pretrain --batch 65536", "--batch is 65536, must be 1 to 65535", 2},
    {"pretrain --accumulate -1", "--accumulate is -1, must be", 2},
    {"pretrain --lr fast", "--lr: \"fast\" is not a number", 2},
    {"pretrain --lr nan", "--lr is nan, must be 0 to", 2},
    {"pretrain --lr -1e-3", "--lr is -1e-3, must be", 2},
    {"pretrain --lr 1e-3 --lr 1e-3", "--lr is given twice", 2},
    {"pretrain --betas 0.9", "--betas: \"0.9\" is not two numbers", 2},
    {"pretrain --betas 0.9,1", "--betas is 1, must be 0 to", 2},
    {"pretrain --schedule step", "--schedule is \"step\", must be one of cosine, linear, constant", 2},
    {"pretrain --perturb some", "must be one of none, all-before", 2},
    {"pretrain --save-dtype f16", "--save-dtype is \"f16\", must be one of f32, bf16", 2},
    {"pretrain --resume=yes", "--resume takes no value, got \"yes\"", 2},
    {"pretrain --seed 9007199254740992", "--seed is 9007199254740992, must be 0 to 9007199254740991", 2},
    {"pretrain --vocab-size 256", "--vocab-size is 256, must be 257 to", 2},
    {"pretrain --threads -1", "--threads is -1, must be 0 to", 2},
    {"pretrain --data=", "--data is empty", 2},
    {"pretrain --data %T --config %C", "--out is missing", 2},
    {"pretrain --config %C --out %D", "--data is missing", 2},
    {"pretrain --data %T --out %D", "--config is missing", 2},
    {"pretrain --data %T --config noiseformer-v3-nano --out %D", "did you mean noiseformer-v1-nano?", 1},
    {"pretrain --data %T --config mah-tiny --out %D", "no preset mah-tiny; did you mean mha-tiny?", 1},
    {"pretrain --data %T --config mamba-nano --out %D", "no preset mamba-nano", 1},
    {"pretrain --data %T --config /no/config.json --out %D", "/no/config.json: No such file", 1},
    {"pretrain --data %T --config %T --out %D", "text.txt", 1},
    {"pretrain --data /no/text --config %C --out %D", "/no/text: No such file", 1},
    {"pretrain --data %T --config %C --out /proc/no/such/dir", "/proc/no: No such file", 1},
    {"pretrain --data %T --config %C --out %T", "text.txt: File exists", 1},
    {"pretrain --data %T --config %C --out %D --val /no/val", "/no/val: No such file", 1},
    {"pretrain --data %T --config %C --out %D --tokenizer /no/t.json", "/no/t.json: No such file", 1},
    {"pretrain --data %T --config %C --out %D --tokenizer %C --vocab-size 300", "exclude each other", 2},
    {"pretrain --data %T --config %C --out %D --perturb all-after", "needs --perturb-sigma", 2},
    {"pretrain --data %T --config %C --out %D --perturb-sigma 1", "needs --perturb", 2},
    {"pretrain --data %T --config %C --out %D --momentum 0.5", "--momentum 0.5 needs --optimizer sgd", 2},
    {"pretrain --data %T --config %C --out %D --optimizer sgd --betas 0.9,0.9", "belong to --optimizer adamw", 2},
    {"pretrain --data %T --config %C --out %D --resume --optimizer sgd --betas 0.9,0.9", "belong to --optimizer adamw",
     2},
    {"pretrain --data %T --config %C --out %D --dropout 1", "--dropout is 1, must be 0 to", 2},
    {"pretrain --data %T --config %C --out %D --noise-draws 0", "--noise-draws is 0, must be 1 to 64", 2},
    {"pretrain --data %T --config %C --out %D --noise-draws-weight best", "best needs --noise-draws", 2},
    {"pretrain --data %T --config %C --out %D --batch 60000 --noise-draws 2", "is above 65535", 2},
    {"pretrain --data %T --config mha-nano --vocab-size 300 --out %D/quiet --noise-draws 2", "has no noise", 1},
    {"pretrain --data %T --config mha-nano --vocab-size 300 --out %D/quiet --window 32 --pieces 32",
     "--pieces is 32, a window has 32 tokens", 1},
    {"pretrain --data %T --config noiseformer-code-nano --vocab-size 300 --out %D/quiet --noise-draws 2",
     "--noise-draws is 2, but the sequences of the config have components", 1},
    {"pretrain --data %T --config noiseformer-code-nano --vocab-size 300 --out %D/quiet --perturb layer-after "
     "--perturb-sigma 0.1",
     "--perturb layer-after cannot be had with noise components", 1},
    {"pretrain --data %T --config noiseformer-code-nano --vocab-size 300 --out %D/quiet --noise-assign source",
     "--noise-assign source: --data are 1 folders, the config has 16 noise.components", 1},
    {"pretrain --data %T --config noiseformer-code-nano --vocab-size 300 --out %D/quiet --noise-assign soft "
     "--batch 5000",
     "--batch 5000 times the 16 noise.components of the config is above 65535", 1},
    {"pretrain --data %T --config %C --out %D --min-lr 1", "--min-lr is 1, above --lr 0.001", 2},
    {"pretrain --data %T --config %C --out %D --lr 0", "--lr is 0: nothing would be learnt", 2},
    {"pretrain --data %T --config %C --out %D --warmup 9 --steps 8", "longer than the run: --steps is 8", 2},
    {"pretrain --data %T /bin/sh --config %C --out %D", "/bin/sh: byte 7 is zero, so this is no text", 1},
    {"pretrain --data %T --config %C --out %D --init /no/dir --vocab-size 300", "cannot learn others", 2},
    {"tokenizer --data %T --out %D/t.json", "--vocab-size is missing", 2},
    {"tokenizer --data %T --vocab-size 300", "--out is missing", 2},
    {"tokenizer --data %T --vocab-size 300 --out /no/t.json", "/no/t.json", 1},
    {"tokenizer --data %T --vocab-size 100000 --out %D/t.json", "100000", 1},
    {"eval --model %D", "--data or --task-data is missing", 2},
    {"eval --model %D --data %T", "config.json: No such file", 1},
    {"eval --model %D --data %T --noise-scale -1", "--noise-scale is -1, must be 0 to", 2},
};

TEST(trainer_cli_refuses_bad_words) {
    World w = world_open();
    for (size_t i = 0; i < COUNTOF(bad_words); i++)
        check_run(&w, bad_words[i].args, bad_words[i].status, bad_words[i].message);
}

TEST(trainer_cli_refuses_more_memory_than_there_is) {
    World w = world_open();
    static const char huge[] =
        "pretrain --config noiseformer-v2-1.5b --vocab-size 300 --data %T --out %D/a --batch 65535";
    check_run(&w, huge, 1, "memory: 20 GiB for weights and optimizer, ");
    check_run(&w, huge, 1, "left: --recompute takes less, and so do a smaller --batch");
    check_run(&w, test_text("%s --recompute", huge), 1,
              "left: a smaller --batch with a larger --accumulate takes less");
    CHECK(is_empty(w.dir));
}

TEST(trainer_cli_overwrites_no_text) {
    World w = world_open();
    check_run(&w, "tokenizer --data %T --vocab-size 300 --out %T", 1, "text.txt exists and is no tokenizer.json (");
    check_run(&w, "tokenizer --data %T --vocab-size 300 --out %C", 1, "config.json exists and is no tokenizer.json (");
    char *text = test_read_file(w.text, NULL), *want = trainer_text(20000);
    CHECK(text && !strcmp(text, want));
    free(text);
    free(want);
    check_run(&w, "tokenizer --data %T --vocab-size 300 --out %D/t.json", 0, "300 tokens");
    check_run(&w, "tokenizer --data %T --vocab-size 301 --out %D/t.json", 0, "301 tokens"); /* its own kind it may */
}

TEST(trainer_cli_makes_the_folders_above) {
    World w = world_open();
    check_run(&w, "pretrain --config %C --data %T --out %D/runs/of/mine/ --steps 1", 0, "done");
    check_run(&w, "pretrain --config %C --data %T --out %D/runs/of/mine --steps 1", 1, "is not empty");
    check_run(&w, "pretrain --resume --out %D/runs/of/mine --steps 1", 0, "done");
    const char *mine = test_text("%s/runs/of/mine/model.safetensors", w.dir);
    CHECK(access(mine, F_OK) == 0);
}

TEST(trainer_cli_refused_runs_leave_nothing) {
    World w = {.dir = test_dir(), .text = trainer_text_file(30), .config = trainer_config_file()};
    static const Refused cases[] = {
        {"pretrain --config %C --out %D/runs/mine", "--data is missing", 2},
        {"pretrain --resume --out %D/runs/mine", "--data is missing", 1},
        {"pretrain --data %T --config %C --min-lr 1 --out %D/runs/mine", "--min-lr is 1", 2},
        {"pretrain --data %T --config %T --out %D/runs/mine", "text.txt", 1},
        /* found out behind tokenizer.json and tokens.bin */
        {"pretrain --data %T --vocab-size 257 --config %C --out %D/runs/mine", "to train on, a window needs", 1},
        {"pretrain --data %T --vocab-size 257 --config %C --out %D", "to train on, a window needs", 1},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        check_run(&w, cases[i].args, cases[i].status, cases[i].message);
        CHECK_MSG(is_empty(w.dir), "%s: left something", cases[i].args);
    }
}

TEST(trainer_cli_needs_two_tokens_to_evaluate) {
    World w = world_open();
    test_write_file(test_text("%s/one.txt", w.dir), "a", 1);
    check_run(&w, "pretrain --config %C --data %T --val %D/one.txt --out %D/a --steps 1", 1,
              "one.txt has 1 tokens, an evaluation needs 2");
}

TEST(trainer_cli_one_run_at_a_time) {
    World w = world_open();
    const char *path = test_text("%s/locked", w.dir);
    CHECK(mkdir(path, 0700) == 0);
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0 && flock(folder, LOCK_EX) == 0);
    check_run(&w, "pretrain --config %C --data %T --out %D/locked --steps 1", 1, "another noised-train is at work");
    close(folder);
    check_run(&w, "pretrain --config %C --data %T --val none --out %D/locked --steps 1", 0, "done");
}

TEST(trainer_cli_help_names_every_flag) {
    World w = world_open();
    check_run(&w, "--help", 0, "noised-train pretrain");
    check_run(&w, "--version", 0, NOISED_VERSION);
    check_run(&w, "tokenizer --help", 0, "--vocab-size N");
    check_run(&w, "eval --help", 0, "--noise-scale X");
    ChildResult r = run_in(&w, "pretrain --help");
    static const char *const flags[] = {"config",
                                        "data",
                                        "out",
                                        "tokenizer",
                                        "vocab-size",
                                        "val",
                                        "init",
                                        "steps",
                                        "resume",
                                        "batch",
                                        "accumulate",
                                        "lr",
                                        "min-lr",
                                        "clip",
                                        "warmup",
                                        "schedule",
                                        "weight-decay",
                                        "betas",
                                        "seed",
                                        "threads",
                                        "kl-weight",
                                        "perturb",
                                        "perturb-sigma",
                                        "precision",
                                        "noise-per-sequence",
                                        "save-dtype",
                                        "eval-every",
                                        "save-every",
                                        "recompute",
                                        "sample-every",
                                        "decay-steps",
                                        "optimizer",
                                        "momentum",
                                        "dropout",
                                        "noise-draws",
                                        "noise-draws-weight"};
    for (size_t i = 0; i < COUNTOF(flags); i++) {
        CHECK_MSG(strstr(r.output, test_text("  --%s ", flags[i])), "--%s is not in the help", flags[i]);
    }
    free(r.output);
}

static double number_in(const char *text, const char *key) {
    Err err;
    cJSON *o = json_parse(text, strlen(text), 4, 1000, &err);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    cJSON_Delete(o);
    return v;
}

TEST(trainer_cli_trains_and_evaluates) {
    World w = world_open();
    check_run(&w, "pretrain --config %C --data %T --val %T --out %D/a --steps 60 --batch 4 --lr 1e-2 --eval-every 30",
              0, "done: ");
    check_run(&w, "pretrain --config %C --data %T --val %T --out %D/a --steps 60", 1, "is not empty");
    ChildResult r = run_in(&w, "eval --model %D/a --data %T");
    REQUIRE(r.status == 0);
    double loss = number_in(r.output, "loss"), bytes = number_in(r.output, "bytes");
    double tokens = number_in(r.output, "tokens");
    CHECK_MSG(loss > 0.5 && loss < 3.5 && bytes == 20000, "%s", r.output);
    CHECK(fabs(number_in(r.output, "perplexity") - exp(loss)) < 1e-4 * exp(loss));
    CHECK(fabs(number_in(r.output, "bits_per_byte") - loss * tokens / log(2) / bytes) < 1e-6);
    free(r.output);

    /* the last line of the log evaluated the same text with the same noise seed */
    const char *dir = test_text("%s/a", w.dir), *path = test_text("%s/log.jsonl", dir);
    char *log = test_read_file(path, NULL);
    REQUIRE(log);
    log[strlen(log) - 1] = 0;
    const char *last = strrchr(log, '\n') + 1;
    CHECK(number_in(last, "step") == 60 && number_in(last, "val_tokens") == tokens);
    CHECK_MSG(fabs(number_in(last, "val_loss") - loss) < 1e-5, "%s against %.7f", last, loss);
    CHECK(strstr(last, "\"sigma\":[[") && number_in(last, "kl") > 0);
    free(log);

    check_run(&w, "eval --model %D/a --data %T --noise-scale 0", 0, "\"noise_scale\":0}");
    check_run(&w, "pretrain --init %D/a --data %T --out %D/b --steps 1 --save-dtype bf16", 0, "done: ");
    check_run(&w, "eval --model %D/b --data %T", 0, "\"loss\":");
    check_run(&w, "pretrain --config noiseformer-v2-nano --init %D/a --data %T --out %D/c --steps 1", 1, "is [300,16");
}

/* The mask is the tokenizer's last token; the text is evaluated on the same masks each time. */
TEST(trainer_cli_fills_masks) {
    World w = world_open();
    check_run(&w,
              "pretrain --config mlm-noble-nano --vocab-size 300 --data %T --val %T --out %D/a --steps 30 --batch 8 "
              "--lr 1e-2",
              0, "masked of");
    ChildResult r = run_in(&w, "eval --model %D/a --data %T");
    REQUIRE(r.status == 0);
    double loss = number_in(r.output, "loss"), tokens = number_in(r.output, "tokens");
    CHECK_MSG(loss > 0.5 && loss < log(300) && !strstr(r.output, "per_byte"), "%s", r.output);
    free(r.output);
    const char *dir = test_text("%s/a", w.dir), *path = test_text("%s/log.jsonl", dir);
    char *log = test_read_file(path, NULL);
    REQUIRE(log);
    log[strlen(log) - 1] = 0;
    const char *last = strrchr(log, '\n') + 1;
    CHECK(number_in(last, "val_tokens") == tokens && fabs(number_in(last, "val_loss") - loss) < 1e-5);
    free(log);
    path = test_text("%s/config.json", dir);
    log = test_read_file(path, NULL);
    CHECK(log && strstr(log, "\"mask_token_id\": 299,") && strstr(log, "\"vocab_size\": 300,"));
    free(log);
    check_run(&w, "pretrain --init %D/a --data %T --out %D/b --steps 1", 0, "done: ");
    check_run(&w, "pretrain --config mlm-nano --tokenizer %D/a/tokenizer.json --data %T --out %D/c --steps 1", 0,
              "done: ");
    check_run(&w, "sample --model %D/a --prompt x", 1, "task is fill-mask");
    check_run(&w, "pretrain --config mlm-nano --vocab-size 300 --data %T --out %D/d --sample-every 1", 1,
              "--sample-every is 1, but task is fill-mask");
    check_run(&w, "pretrain --config vit-nano --data %T --out %D/d", 1, "task is image-classification, but pretrain");
}

/* Of a network all but its noise goes on under a config with another. */
TEST(trainer_cli_starts_another_noise) {
    World w = world_open();
    check_run(&w, "tokenizer --data %T --vocab-size 270 --out %D/t.json", 0, "270 tokens");
    check_run(&w, "pretrain --config noiseformer-v2-nano --tokenizer %D/t.json --data %T --out %D/gaussian --steps 1",
              0, "done");
    check_run(&w,
              "pretrain --config noiseformer-code-nano --init %D/gaussian --data %T --out %D/code --steps 1 --lr 1e-30",
              0, "gaussian: its noise, for that of the config has another form\n");
    check_run(&w, "pretrain --config symmetric-nano --init %D/code --data %T --out %D/plain --steps 1 --lr 1e-30", 0,
              "code: its noise, for the config has none\n");
    ChildResult first = run_in(&w, "eval --model %D/gaussian --data %T --noise-scale 0");
    ChildResult last = run_in(&w, "eval --model %D/plain --data %T");
    CHECK_MSG(first.status == 0 && number_in(first.output, "loss") == number_in(last.output, "loss"), "%s%s",
              first.output, last.output);
    free(first.output);
    free(last.output);
}

TEST(trainer_cli_tells_of_doubts) {
    World w = world_open();
    check_run(&w, "tokenizer --data %T --vocab-size 270 --out %D/t.json", 0, "270 tokens");
    check_run(&w, "pretrain --config noiseformer-v2-nano --tokenizer %D/t.json --data %T --out %D/b --steps 1", 0,
              "done");
    check_run(&w, "pretrain --config noiseformer-v2 --tokenizer %D/t.json --data %T --out %D/c --steps 1 --batch 1", 0,
              "warning: vocab_size is 4096, but the tokenizer has 270 tokens: 3826 rows");
    w.text = trainer_text_file(80);
    check_run(&w, "pretrain --config %C --vocab-size 257 --data %T --val none --out %D/d --steps 101 --batch 2", 0,
              "warning: every window is read 101 times");
    check_run(&w,
              "pretrain --config mha-nano --vocab-size 257 --data %T --val none --out %D/e --steps 1 --noise-warmup 5",
              0, "warning: --noise-warmup 5 changes nothing, the config has no noise");
    check_run(&w,
              "pretrain --config mha-nano --vocab-size 257 --data %T --val none --out %D/f --steps 1 "
              "--noise-per-sequence",
              0, "warning: --noise-per-sequence changes nothing, the config has no noise");
    CHECK(link(w.text, test_text("%s/text.jsonl", w.dir)) == 0);
    check_run(&w, "pretrain --config mha-nano --vocab-size 257 --data %D/text.jsonl --val none --out %D/h --steps 1", 0,
              "text.jsonl is read as it stands, braces and all");
    check_run(&w,
              "pretrain --config noiseformer-v2-nano --vocab-size 257 --data %T --val none --out %D/g --steps 1 "
              "--noise-assign draw",
              0, "warning: --noise-assign draw changes nothing, the sequences of the config have no components");
    check_run(
        &w,
        "pretrain --config noiseformer-v2-nano --vocab-size 257 --data %T --val none --out %D/i --steps 2 "
        "--kl-weight 1e6",
        1, "before any weight has moved): the weights it begins with or their noise (--perturb-sigma) are too large");
}

TEST(trainer_cli_stops_when_it_diverges) {
    World w = world_open();
    check_run(&w, "pretrain --config %C --data %T --out %D/a --steps 400 --batch 2 --save-every 5 --lr 9 --warmup 30",
              1, "the training diverges, its loss of ");
    ChildResult r = run_in(&w, "eval --model %D/a --data %T");
    const char *loss = strstr(r.output, "\"loss\":");
    CHECK_MSG(r.status == 0 && loss && atof(loss + 7) < 7, "%s", r.output); /* the one that stands is a good one */
    free(r.output);
}

/* A run that gets worse by and by, and saves after each step but those: the checkpoint that stands is of a step whose
 * loss is hardly worse than that of knowing nothing, and somewhat worse ones came after it. */
TEST(trainer_cli_saves_nothing_that_diverges) {
    static const char stands[] = "the checkpoint of step ";
    const double most = log(300) + 0.25;
    World w = world_open();
    ChildResult r =
        run_in(&w, "pretrain --config %C --data %T --out %D/a --steps 400 --batch 2 --save-every 1 --lr 5 --warmup 30");
    const char *said = strstr(r.output, stands);
    int saved = said ? atoi(said + strlen(stands)) : 0, somewhat_worse = 0, step;
    CHECK_MSG(r.status == 1 && strstr(r.output, "the training diverges") && saved > 0, "%s", r.output);
    const char *path = test_text("%s/a/log.jsonl", w.dir);
    FILE *log = fopen(path, "r");
    REQUIRE(log);
    char line[4096];
    for (double loss; fgets(line, sizeof line, log);) {
        if (sscanf(line, "{\"step\":%d,\"loss\":%lf", &step, &loss) != 2) continue;
        CHECK_MSG(step != saved || loss < most, "step %d of loss %g is saved", step, loss);
        somewhat_worse += step > saved && loss > most && loss < most + 3;
    }
    CHECK_MSG(somewhat_worse > 0, "step %d is saved, and this shows little", saved);
    fclose(log);
    free(r.output);
}

TEST(trainer_cli_exactly_one_window) {
    World w = world_open();
    const char *path = test_text("%s/x.txt", w.dir);
    test_write_file(path, "@#$%^&*()@#$%^&*()@#$%^&*()@#$%^&", 33); /* 33 tokens: no merge was learnt for these */
    check_run(&w, "tokenizer --data %T --vocab-size 290 --out %D/t.json", 0, "290 tokens from 20000 bytes");
    check_run(&w,
              "pretrain --config %C --tokenizer %D/t.json --data %D/x.txt --val none --out %D/a --steps 3 --batch 1", 0,
              "33 tokens from 33 bytes (encoded now), 1 windows of 32, 0 tokens held out");
    test_write_file(path, "@#$%^&*()@#$%^&*()@#$%^&*()@#$%^", 32);
    check_run(&w, "pretrain --config %C --tokenizer %D/t.json --data %D/x.txt --val none --out %D/b --steps 3", 1,
              "32 tokens to train on, a window needs 33");
}
