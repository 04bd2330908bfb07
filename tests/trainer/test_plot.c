/* The picture of a training. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/report/plot.h"

#include <stdlib.h>
#include <string.h>

TEST(plot_ends_a_training) {
    const char *dir = test_dir(), *text = trainer_text_file(20000), *config = trainer_config_file();
    ChildResult r = trainer_run(
        test_text("pretrain --config %s --data %s --out %s/a --steps 30 --batch 2 --eval-every 10", config, text, dir));
    CHECK_MSG(r.status == 0 && strstr(r.output, "picture: "), "%s", r.output);
    free(r.output);
    const char *path = test_text("%s/a/plot.svg", dir);
    char *svg = test_read_file(path, NULL);
    REQUIRE(svg);
    CHECK(!strncmp(svg, "<svg ", 5) && strstr(svg, "</svg>") && strstr(svg, "prefers-color-scheme:dark"));
    CHECK(text_count(svg, "class=\"title\"") == 3 && strstr(svg, "validation loss") && strstr(svg, "learning rate"));
    CHECK(text_count(svg, "<polyline") == 3 + 1 + 2 * 2); /* losses, rate, 2 layers of 2 heads */
    CHECK(!strstr(svg, "nan") && !strstr(svg, "inf"));
    free(svg);
    r = trainer_run(test_text("plot %s/a --out %s/b.svg", dir, dir));
    CHECK_MSG(r.status == 0 && strstr(r.output, "b.svg"), "%s", r.output);
    free(r.output);
}

TEST(plot_of_what_is_no_log) {
    static const char *const logs[][2] = {
        {"", "no step in it"},
        {"{\"step\":1,\"loss\":2}\n{\"st\n", "line 2 is no step"},
        {"{\"loss\":2}\n", "line 1 is no step"},
        {"{\"step\":1}\n{\"step\":2,\"sigma\":[[1],[2,3]]}\n", NULL}, /* nothing to see, nothing wrong */
        {"{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":1.0000000000000007}\n", NULL}, /* closer than a step of ticks */
        {"{\"step\":5,\"loss\":3,\"lr\":0}\n{\"step\":6,\"loss\":null,\"sigma\":[[0.1]]}\n", NULL},
    };
    const char *dir = test_dir(), *path = test_text("%s/log.jsonl", dir), *svg = test_text("%s/plot.svg", dir);
    Err err;
    CHECK(plot_run(dir, svg, &err) == -1 && strstr(err.msg, "log.jsonl: No such file"));
    for (size_t i = 0; i < COUNTOF(logs); i++) {
        test_write_file(path, logs[i][0], strlen(logs[i][0]));
        int rc = plot_run(dir, svg, &err);
        CHECK_MSG(logs[i][1] ? rc == -1 && strstr(err.msg, logs[i][1]) : rc == 0, "%zu: %d %s", i, rc, err.msg);
    }
}

typedef struct Plot {
    const char *dir, *svg;
    int rc;
    Err err;
} Plot;

static void draw(void *arg) {
    Plot *p = arg;
    p->rc = plot_run(p->dir, p->svg, &p->err);
}

/* A number for each of 2^18 steps and each of 2^17 heads would be 275 GB, of a file of 3 MB. */
TEST(plot_takes_memory_for_what_the_log_holds) {
    enum { HEADS = 1 << 17, STEPS = 1 << 18 };
    const char *dir = test_dir(), *path = test_text("%s/log.jsonl", dir), *svg = test_text("%s/plot.svg", dir);
    Buffer log = {0};
    buffer_text(&log, "{\"step\":0,\"loss\":3,\"sigma\":[[0");
    for (int i = 1; i < HEADS; i++) buffer_text(&log, ",0");
    buffer_text(&log, "]]}\n");
    for (int i = 1; i < STEPS; i++) buffer_text(&log, "{\"step\":1}\n");
    test_write_file(path, log.data, log.n);
    Plot p = {.dir = dir, .svg = svg};
    CHECK_MSG(memory_survives(draw, &p) && p.rc == 0, "%d %s", p.rc, p.err.msg);
    buffer_free(&log);
}
