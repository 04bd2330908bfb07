/* eval and score say the same on any number of ranks, by the real programs. */
#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <stdlib.h>
#include <string.h>

/* What is said on n ranks, 0 being noised-train: the lines of JSON. */
static char *judge(int n, const char *args) {
    ChildResult r = n ? trainer_run_ranks(n, args) : trainer_run(args);
    const char *json = strchr(r.output, '{');
    CHECK_MSG(r.status == 0 && json, "%d ranks, %s: status %d: %s", n, args, r.status, r.output);
    char *said = xstrdup(json ? json : "");
    free(r.output);
    return said;
}

static void check_same(const char *args) {
    char *one = judge(0, args);
    for (int n = 1; n <= 3; n++) {
        char *said = judge(n, args);
        CHECK_MSG(!strcmp(said, one), "%d ranks, %s:\n%snot\n%s", n, args, said, one);
        free(said);
    }
    free(one);
}

/* 19 groups of 32 windows, the last of them shorter; then under each of several components. */
TEST(mpi_eval_same_numbers) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    Config c = test_variant(attention_kind_find("mha"), "components");
    const char *text = trainer_text_file(30000), *dir = test_dir();
    c.vocab_size = TEST_VOCAB;
    REQUIRE(test_checkpoint_write_as(dir, &c, DTYPE_F32, 5));
    check_same(test_text("eval --model %s --data %s --window 16", test_checkpoint(CHECKPOINT_SMALL), text));
    check_same(test_text("eval --model %s --data %s --window 16", dir, text));
}

/* Fewer batches than ranks, and more. */
TEST(mpi_eval_same_scores_of_labels) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    const char *dir = test_dir();
    static const int counts[] = {3, 300};
    for (size_t k = 0; k < COUNTOF(counts); k++) {
        Buffer lines = {0};
        for (int i = 0; i < counts[k]; i++)
            buffer_print(&lines, "{\"text\":\"the river %d goes down %d\",\"label\":\"%s\"}\n", i * i, i,
                         i % 3 ? "POS" : "NEG");
        buffer_append(&lines, "", 1);
        test_write_text(dir, "data.jsonl", lines.data);
        buffer_free(&lines);
        check_same(test_text("eval --model %s --task-data %s/data.jsonl", test_checkpoint(CHECKPOINT_CLASSES), dir));
    }
}

TEST(mpi_score_same_numbers) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    const char *dir = test_dir();
    Buffer lines = {0};
    for (int i = 0; i < 60; i++)
        buffer_print(&lines,
                     "{\"query\":\"the river %d\",\"choices\":[\"goes down\",\"turns %d times\"],\"gold\":%d}\n", i * i,
                     i, i % 2);
    buffer_append(&lines, "", 1);
    test_write_text(dir, "rivers.jsonl", lines.data);
    check_same(test_text("score --model %s --task %s/rivers.jsonl %s/rivers.jsonl --threads 1",
                         test_checkpoint(CHECKPOINT_SMALL), dir, dir));
    buffer_free(&lines);
}

/* Rank 1 has another text at the same place of its command line. */
TEST(mpi_eval_refuses_other_texts) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    const char *build = getenv("BUILD"), *model = test_checkpoint(CHECKPOINT_SMALL);
    const char *text = trainer_text_file(3000), *other = trainer_text_file(3001);
    ChildResult r = trainer_run_ranks(
        1, test_text("eval --model %s --data %s : -np 1 %s/noised-train-mpi eval --model %s --data %s", model, text,
                     build ? build : "build", model, other));
    CHECK_MSG(r.status == 1 && strstr(r.output, "--data is "), "status %d: %s", r.status, r.output);
    free(r.output);
}
