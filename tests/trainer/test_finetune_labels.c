/* finetune: texts and words by labels, and what it refuses. */
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "tests/support/http_client.h"
#include "tests/trainer/test_finetune.h"
#include "trainer/tasks/examples_load.h"
#include "trainer/tasks/task_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cJSON *results_of(const char *dir, const char *name) {
    const char *path = test_text("%s/%s/results.json", dir, name);
    char *text = test_read_file(path, NULL);
    cJSON *o = text ? cJSON_Parse(text) : NULL;
    CHECK_MSG(o, "%s is not there", path);
    free(text);
    return o;
}

/* Of what describes the tokens and what is for texts that are written the first alone is of use to a classifier. */
TEST(finetune_says_what_a_classifier_leaves_behind) {
    const char *dir = finetune_data();
    char path[300];
    snprintf(path, sizeof path, "mkdir %s/talks && cp %s/* %s/talks", dir, test_checkpoint(CHECKPOINT_SMALL), dir);
    REQUIRE(system(path) == 0);
    snprintf(path, sizeof path, "%s/talks", dir);
    test_write_text(path, "generation_config.json", "{}");
    test_write_text(path, "tokenizer_config.json", "{}");
    finetune_check(dir, "finetune --init %D/talks --train %D/train.jsonl --epochs 1 --out %D/run", 0,
                   "/talks: tokenizer_config.json\nleft behind in ");
    snprintf(path, sizeof path, "%s/run/tokenizer_config.json", dir);
    CHECK(access(path, F_OK) == 0);
    snprintf(path, sizeof path, "%s/run/generation_config.json", dir);
    CHECK(access(path, F_OK));
}

TEST(finetune_learns_texts) {
    const char *dir = finetune_data();
    finetune_check(
        dir,
        "finetune --init %M --train %D/train.jsonl --dev %D/dev.jsonl --test %D/train.jsonl --epochs 12 --batch 8 "
        "--lr 1e-2 --patience 8 --out %D/run",
        0, "(majority 0.5000, chance 0.5000)");
    cJSON *o = results_of(dir, "run");
    CHECK(json_number(o, "test.accuracy.mean") == 1 && json_number(o, "dev.accuracy.mean") == 1);
    CHECK(json_number(o, "runs.0.test.majority") == 0.5 && json_number(o, "runs.0.test_without_noise.n") == 24);
    /* a checkpoint like any other, by which each text alone has the bits of all together */
    Checkpoint c;
    Examples e;
    TaskData d;
    Err err;
    REQUIRE(checkpoint_open(&c, test_text("%s/run", dir), &err) == 0);
    CHECK(c.model.cfg.task == TASK_TEXT_CLASSIFICATION && c.model.cfg.n_labels == 2 && c.tokenizer);
    REQUIRE(examples_load(&e, test_text("%s/dev.jsonl", dir), 0, &c.labels, &err) == 0);
    REQUIRE(task_data_encode(&d, &e, c.tokenizer, &c.model.cfg, false, &err) == 0);
    NoiseKey noise = {.scale = 1};
    TaskScore all;
    task_score(&c.model, &d, NULL, noise, 0, NULL, &all);
    CHECK(all.metric[METRIC_ACCURACY] == json_number(o, "dev.accuracy.mean"));
    CHECK(all.loss == json_number(o, "runs.0.dev.loss"));
    TaskBatch together = {0}, alone = {0};
    Tape tape, other;
    tape_init(&tape, false);
    tape_init(&other, false);
    task_batch_fill(&together, &d, (uint32_t[]){0, 1, 2}, 3, noise, false);
    const Mat *logits = model_forward(&c.model, &tape, &together.batch, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        task_batch_fill(&alone, &d, &i, 1, noise, false);
        tape_reset(&other);
        const Mat *one = model_forward(&c.model, &other, &alone.batch, NULL);
        CHECK(!memcmp(one->x, logits->x + 2 * i, 2 * sizeof(float)));
    }
    tape_free(&tape);
    tape_free(&other);
    task_batch_free(&together);
    task_batch_free(&alone);
    task_data_free(&d);
    examples_free(&e);
    checkpoint_close(&c);
    finetune_check(dir, "eval --model %D/run --task-data %D/dev.jsonl", 0, "\"accuracy\":1,");
    finetune_check(dir, "eval --model %D/run --task-data %D/train.conll", 1, "train.conll:1: unknown label \"O\"");
    finetune_check(dir, "eval --model %M --task-data %D/dev.jsonl", 1, "has no labels: its task is text-generation");
    finetune_check(dir, "score --model %D/run --task tests/trainer/data/cloze.jsonl", 1, "predicts no next token");
    finetune_check(dir, "sample --model %D/run --prompt a", 1, "task is text-classification");
    finetune_check(dir, "eval --model %D/run --data %D/dev.jsonl", 1, "such a network predicts no ");
    cJSON_Delete(o);
}

/* The head alone learns, and what was computed once says what the whole network says. */
TEST(finetune_freezes_all_but_the_head) {
    const char *dir = finetune_data();
    char path[300];
    finetune_check(
        dir,
        "finetune --init %M --train %D/train.jsonl --dev %D/dev.jsonl --freeze --epochs 3 --lr 3e-2 --batch 8 "
        "--noise-seed 5 --noise-scale 0.5 --out %D/run",
        0, "done");
    cJSON *o = results_of(dir, "run");
    snprintf(path, sizeof path, "%s/run/log.jsonl", dir);
    char *log = test_read_file(path, NULL);
    int epoch = (int)json_number(o, "runs.0.epoch");
    char *line = log;
    for (int i = 1; line && i < epoch; i++) line = strchr(line, '\n') + 1;
    cJSON *logged = cJSON_Parse(line);
    CHECK(json_number(logged, "dev.loss") == json_number(o, "runs.0.dev.loss"));
    CHECK_MSG(epoch == (int)json_number(logged, "epoch"), "epoch %s", test_text("%d", epoch));
    Checkpoint before, after;
    Err err;
    snprintf(path, sizeof path, "%s/run", dir);
    REQUIRE(checkpoint_open(&before, test_checkpoint(CHECKPOINT_SMALL), &err) == 0);
    REQUIRE(checkpoint_open(&after, path, &err) == 0);
    for (int i = 0; i < after.model.params.n; i++) {
        const Weight *w = after.model.params.params[i].weight;
        const Param *p = params_find(&before.model.params, w->name);
        if (!p) CHECK_MSG(!strncmp(w->name, "score.", 6), "%s is new", w->name);
        if (p) CHECK_MSG(!memcmp(w->data, p->weight->data, weight_count(w) * sizeof(float)), "%s has moved", w->name);
    }
    checkpoint_close(&before);
    checkpoint_close(&after);
    cJSON_Delete(o);
    cJSON_Delete(logged);
    free(log);
}

/* Noise that is to act from the first step on; what no learning moves shows what it was told. */
TEST(finetune_starts_sigma_where_it_is_told) {
    const char *dir = finetune_data();
    const char *run =
        "finetune --init %M --train %D/train.jsonl --freeze --epochs 1 --batch 8 --sigma-start 0.75 --out "
        "%D/run";
    finetune_check(dir, run, 0, "done");
    Checkpoint c;
    Err err;
    REQUIRE(checkpoint_open(&c, test_text("%s/run", dir), &err) == 0);
    int found = 0;
    for (int i = 0; i < c.model.params.n; i++) {
        const Weight *w = c.model.params.params[i].weight;
        if (!strstr(w->name, "noise.sigma")) continue;
        for (size_t k = 0; k < weight_count(w); k++, found++)
            CHECK_MSG(weight_f32(w)[k] == 0.75f, "%s[%zu] is %g", w->name, k, (double)weight_f32(w)[k]);
    }
    CHECK(found > 0);
    checkpoint_close(&c);
    finetune_check(dir,
                   test_text("finetune --init %s --train %%D/train.jsonl --sigma-start 1 --out %%D/none",
                             test_checkpoint(CHECKPOINT_QUIET)),
                   1, "--sigma-start is 1, but the config's noise has no sigma of its own");
}

/* Training itself draws noise: where it is stronger, the same examples have another loss. */
TEST(finetune_trains_under_noise) {
    const char *dir = finetune_data();
    char args[512];
    double loss[2];
    for (int i = 0; i < 2; i++) {
        snprintf(
            args, sizeof args,
            "finetune --init %%M --train %%D/train.jsonl --epochs 1 --batch 24 --kl-weight 0 --sigma-start %d --out "
            "%%D/run%d",
            1 + i, i);
        finetune_check(dir, args, 0, "done");
        char *log = test_read_file(test_text("%s/run%d/log.jsonl", dir, i), NULL);
        cJSON *o = log ? cJSON_Parse(log) : NULL;
        loss[i] = json_number(o, "loss");
        cJSON_Delete(o);
        free(log);
    }
    CHECK_MSG(fabs(loss[0] - loss[1]) > 1e-6, "%.9g and %.9g", loss[0], loss[1]);
}

TEST(finetune_learns_tags) {
    const char *dir = finetune_data();
    finetune_check(
        dir,
        "finetune --init %M --train %D/train.conll --dev %D/train.conll --epochs 12 --batch 8 --lr 1e-2 --out %D/run",
        0, "entity-f1");
    cJSON *o = results_of(dir, "run");
    CHECK(json_number(o, "dev.entity_f1.mean") == 1 && json_number(o, "dev.majority") == 0.8);
    CHECK(!strcmp(json_text(o, "metric"), "entity-f1"));
    cJSON_Delete(o);
}

/* The networks of the noise-injection paper, by its rule of learning. */
TEST(finetune_learns_on_word_vectors) {
    const char *dir = finetune_data();
    char text[2048];
    static const char *const words[] = {"the", "and", "river", "mill", "wheel", "word", "stone", "book"};
    size_t n = 0;
    for (int i = 0; i < 8; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", words[i]);
        for (int k = 0; k < 8; k++) n += (size_t)snprintf(text + n, sizeof text - n, " %d", k == i ? 2 : 0);
        text[n++] = '\n';
    }
    text[n] = 0;
    test_write_text(dir, "vectors.txt", text);
    finetune_check(dir,
                   "finetune --config ner-shallow --vectors %D/vectors.txt --train %D/train.conll --dev %D/train.conll "
                   "--epochs 6 --batch 4 --lr 1e-2 --perturb layer-before --perturb-sigma 0.001 --out %D/ner",
                   0, "entity-f1 1.0000");
    finetune_check(
        dir,
        "finetune --config trec-narrowshallow --vectors %D/vectors.txt --train %D/train.jsonl --dev %D/dev.jsonl "
        "--optimizer sgd --momentum 0.9 --lr 1e-2 --dropout 0 --epochs 2 --batch 4 --out %D/trec",
        0, "done");
    finetune_check(dir, "eval --model %D/ner --task-data %D/train.conll", 0, "\"entity_f1\":1,");
    finetune_check(dir, "finetune --init %D/ner --train %D/train.conll --epochs 1 --out %D/more", 0, "done");
    finetune_check(dir, "finetune --init %D/ner --freeze --train %D/train.conll --out %D/x", 1,
                   "bilstm learns as a whole");
    finetune_check(dir, "finetune --config ner-shallow --train %D/train.conll --out %D/x", 1, "--vectors is missing");
    finetune_check(dir, "finetune --config vit-nano --vectors %D/vectors.txt --train %D/train.conll --out %D/x", 1,
                   "vit-nano reads none");
    finetune_check(dir, "finetune --init %M --vectors %D/vectors.txt --train %D/train.conll --out %D/x", 2,
                   "brings its own words or tokens");
}

TEST(finetune_refuses) {
    static const struct {
        const char *args, *says;
        int status;
    } cases[] = {
        {"finetune --init %M --out %D/x", "--train is missing", 2},
        {"finetune --train %D/train.jsonl --out %D/x", "--init or --config is missing", 2},
        {"finetune --init %M --config y --train %D/train.jsonl --out %D/x", "exclude each other", 2},
        {"finetune --init %M --train %D/train.jsonl --out %D/x --patience 2", "--patience needs --dev", 2},
        {"finetune --init %M --train %D/train.jsonl --out %D/x --momentum 0.9", "--momentum is for --optimizer sgd", 2},
        {"finetune --config vit-nano --train %D/train.jsonl --out %D/x", "train.jsonl holds texts, but task is image",
         1},
        {"finetune --init %M --train %D/train.jsonl --out %D/x --perturb all-after", "need each other", 2},
        {"finetune --config y --train %D/train.jsonl --out %D/x --freeze", "--freeze needs --init", 2},
        {"finetune --init %M --train %D/train.jsonl --out %D/x --optimizer sgd --betas 0.9,0.9", "to --optimizer adamw",
         2},
        {"finetune --init %M --train %D/train.jsonl --out %D/x --mixup 0.8", "--mixup and --cutmix are for images", 1},
        {"finetune --init %M --train %D/train.conll --out %D/x --pool mean", "--pool is for texts and images", 1},
        {"finetune --init %M --train %D/train.jsonl --dev %D/train.jsonl --metric entity-f1 --out %D/x",
         "are no tags of chunks", 1},
        {"finetune --init %M --train %D/bad.jsonl --out %D/x", "bad.jsonl:2: the text is empty", 1},
        {"finetune --init %M --train %D/train.jsonl --dev %D/other.jsonl --out %D/x",
         "other.jsonl:1: unknown label \"NONE\"; there are HARD, SOFT", 1},
        {"finetune --init %M --train %D/long.jsonl --out %D/x", "long.jsonl:1: ", 1},
        {"finetune --init %M --train %D/long.jsonl --out %D/x", "max_position_embeddings is 512", 1},
        {"finetune --init %M --train %D/other.jsonl --out %D/x", "all labels are \"NONE\"", 1},
        {"finetune --init %M --train %D/train.jsonl --dev %D/train.conll --out %D/x", "unknown label \"O\"", 1},
        {"finetune --init %M --train /no/file.jsonl --out %D/x", "/no/file.jsonl: No such file", 1},
        {"finetune --init /no/dir --train %D/train.jsonl --out %D/x", "/no/dir", 1},
        {"finetune --resume --out %D/x", "--train is missing: ", 1},
        {"finetune --init %M --train %D/train.jsonl --out %D", "is not empty", 1},
        {"finetune --init %M --train %D/train.jsonl --out %D/x --accumulate 25", "has 24 examples, not one for every",
         1},
    };
    const char *dir = finetune_data();
    char *x = xmalloc(4096);
    test_write_text(dir, "bad.jsonl", "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"\",\"label\":\"y\"}\n");
    test_write_text(dir, "other.jsonl", "{\"text\":\"a\",\"label\":\"NONE\"}\n");
    size_t n = (size_t)snprintf(x, 64, "{\"label\":\"HARD\",\"text\":\"");
    memset(x + n, 'z', 3000);
    snprintf(x + n + 3000, 64, "\"}\n{\"label\":\"SOFT\",\"text\":\"b\"}\n");
    test_write_text(dir, "long.jsonl", x);
    for (size_t i = 0; i < COUNTOF(cases); i++) finetune_check(dir, cases[i].args, cases[i].status, cases[i].says);
    CHECK(access(test_text("%s/x", dir), F_OK) < 0); /* nothing is left behind */
    finetune_check(dir, "finetune --init %M --train %D/long.jsonl --out %D/x --truncate --epochs 1 --freeze", 0,
                   "1 texts of");
    free(x);
}
