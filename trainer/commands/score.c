#include "base/json_write.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "trainer/commands/commands.h"
#include "trainer/ranks/agree.h"
#include "trainer/stop.h"
#include "trainer/tasks/zero_shot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Score {
    const char *model, *delimiter;
    OptionList tasks;
    bool truncate;
    int threads;
    int64_t seed;
    double scale;
} Score;

/* Of piqa.jsonl "piqa". */
static const char *task_name(const char *path, char name[64]) {
    const char *slash = strrchr(path, '/');
    snprintf(name, 64, "%s", slash ? slash + 1 : path);
    name[strcspn(name, ".")] = 0;
    return name;
}

static int print_score(const Questions *q, const ZeroShotScore *s, int truncated, NoiseKey noise, Err *err) {
    char name[64];
    Buffer line = {0};
    json_open(&line, NULL, '{');
    json_put_text(&line, "task", task_name(q->path, name));
    json_put_int(&line, "n", s->n);
    json_put_rounded(&line, "acc", s->acc, 9);
    json_put_rounded(&line, "acc_stderr", s->acc_error, 9);
    if (q->cloze) {
        json_put_rounded(&line, "perplexity", s->perplexity, 9);
    } else {
        json_put_rounded(&line, "acc_norm", s->acc_norm, 9);
        json_put_rounded(&line, "acc_norm_stderr", s->acc_norm_error, 9);
        json_put_rounded(&line, "chance", s->chance, 9);
        json_put_rounded(&line, "majority", s->majority, 9);
    }
    json_put_int(&line, "truncated", truncated);
    json_put_uint(&line, "noise_seed", noise.seed);
    json_put_rounded(&line, "noise_scale", (double)noise.scale, 9);
    return json_end_line(&line, stdout) ? err_set(err, "standard output cannot be written") : 0;
}

static int score_task(const ZeroShot *z, const Questions *q, Err *err) {
    Likelihood *likelihoods = xcalloc((size_t)q->n_choices, sizeof *likelihoods);
    int truncated, rc = zero_shot(z, q, likelihoods, &truncated, err);
    if (rc == 0) {
        ZeroShotScore s = zero_shot_score(q, likelihoods);
        rc = print_score(q, &s, truncated, z->noise, err);
    }
    free(likelihoods);
    return rc;
}

/* All files are read before the first is scored. */
static int score_tasks(const ZeroShot *z, const OptionList *tasks, Err *err) {
    Questions *q = xcalloc((size_t)tasks->n, sizeof *q);
    int rc = 0, n = 0;
    for (; n < tasks->n && rc == 0; n++) rc = questions_load(&q[n], tasks->items[n], err);
    for (int i = 0; i < n && rc == 0; i++) rc = agree_file("--task", tasks->items[i], err);
    for (int i = 0; i < tasks->n && rc == 0; i++) rc = score_task(z, &q[i], err);
    for (int i = 0; i < n; i++) questions_free(&q[i]);
    free(q);
    return rc;
}

static int run(const CommandLine *line) {
    const Score *s = line->values;
    Checkpoint c;
    Err err;
    if (s->threads) team_resize(s->threads);
    if (agree_program(&err) || agree_options(line, &err) || checkpoint_open(&c, s->model, &err))
        return command_fail(line, &err, EXIT_FAILED);
    stop_install();
    ZeroShot z = {.checkpoint = &c,
                  .delimiter = s->delimiter ? s->delimiter : " ",
                  .truncate = s->truncate,
                  .noise = {.seed = (uint64_t)s->seed, .scale = (float)s->scale},
                  .stopped = stop_signal};
    int rc = agree_on("the hash of --model", c.hash, &err);
    if (rc == 0 && !c.tokenizer) rc = err_set(&err, "--model %s has no tokenizer.json", s->model);
    if (rc == 0) rc = score_tasks(&z, &s->tasks, &err);
    if (rc == 0) rc = shards_check_intact(&c.shards, &err);
    checkpoint_close(&c);
    if (rc < 0) return command_fail(line, &err, EXIT_FAILED);
    return rc ? 128 + ranks_most(stop_signal()) : EXIT_DONE; /* one that came to any rank */
}

#define AT(member) offsetof(Score, member)
static const Option options[] = {
    {"model", OPTION_TEXT, AT(model), "DIR", .required = true, .help = "checkpoint to score"},
    {"task", OPTION_LIST, AT(tasks), "FILE", .required = true, .help = "questions, a line of results each"},
    {"delimiter", OPTION_TEXT, AT(delimiter), "TEXT", .absent = "a space", .may_be_empty = true,
     .help = "what stands between a query and a choice"},
    {"truncate", OPTION_SWITCH, AT(truncate),
     .help = "cut the first tokens of texts beyond max_position_embeddings, and count them, in place of refusing"},
    {"noise-seed", OPTION_INT64, AT(seed), "N", 0, (double)SEED_MAX, "0",
     .help = "noise seed, the same for every text"},
    {"noise-scale", OPTION_REAL, AT(scale), "X", 0, 1e6, "1", .help = "factor on every sigma; 0: no noise"},
    {"threads", OPTION_INT, AT(threads), "N", 0, 1024, "0",
     .help = "threads that compute; 0: all cores that this process may use"},
};
const Command command_score = {
    .name = "score",
    .summary = "Answers questions by which continuation a checkpoint finds likeliest, one line of JSON a file.",
    .details =
        "A file has one question a line: {\"query\": \"Where do fish live?\", \"choices\": [\"in water\", \"in "
        "trees\"], \"gold\": 0}, {\"contexts\": [\"Fish\", \"Birds\"], \"continuation\": \"live in water\", "
        "\"gold\": 0} or {\"context\": \"Fish live in\", \"continuation\": \"water\"}, the last in files of its own. "
        "acc is how often the likeliest choice is right, acc_norm the same by likelihood per character. Of the last "
        "form (LAMBADA's) acc is how often every token of the continuation was the likeliest, and perplexity that "
        "of a continuation. /v1/completions gives the same log-probabilities with echo, logprobs 1 and max_tokens "
        "0.",
    .size = sizeof(Score),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
