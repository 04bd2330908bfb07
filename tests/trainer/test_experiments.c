/* The experiments of the papers, end to end on a few lines: a page, a picture, and nothing trained twice. */
#include "base/err.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void write_questions(const char *path, int n) {
    static const char *const lines[] = {"NUM:count How many stones has the mill ?", "HUM:ind Who counts the stones ?",
                                        "LOC:other Where does the river run ?",     "DESC:def What is a word ?",
                                        "ENTY:animal What swims below the mill ?",  "ABBR:exp What does NUM mean ?"};
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < n; i++) fprintf(f, "%s %d\n", lines[i % 6], i);
    if (f) fclose(f);
}

static int run(const char *dir) {
    char command[1024];
    const char *build = getenv("BUILD");
    snprintf(command, sizeof command,
             "BUILD=%s RUNS=%s/runs DOCS=%s/docs DATA=%s SEEDS=2 EPOCHS=2 VOCAB=300 python3 scripts/papers/lecture.py "
             ">%s/out 2>&1",
             build ? build : "build", dir, dir, dir, dir);
    return system(command);
}

TEST(experiments_write_a_page_and_go_on) {
    if (system("command -v python3 >/dev/null")) SKIP("no python3");
    char *dir = test_dir(), path[512];
    snprintf(path, sizeof path, "%s/trec", dir);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/trec/TREC.train.txt", dir);
    write_questions(path, 60);
    CHECK_MSG(run(dir) != 0, "without its test set");
    snprintf(path, sizeof path, "%s/trec/TREC.test.txt", dir);
    write_questions(path, 12);
    for (int again = 0; again < 2; again++) {
        int rc = run(dir);
        snprintf(path, sizeof path, "%s/out", dir);
        char *out = test_read_file(path, NULL);
        bool begins = out && strstr(out, "begins");
        CHECK_MSG(rc == 0 && begins == !again, "%s", out ? out : "");
        free(out);
    }
    snprintf(path, sizeof path, "%s/docs/lecture.md", dir);
    char *page = test_read_file(path, NULL);
    snprintf(path, sizeof path, "%s/docs/lecture.svg", dir);
    char *picture = test_read_file(path, NULL);
    CHECK_MSG(page && strstr(page, "| lecture |") && picture && strstr(picture, "<polygon"), "%s", page ? page : "");
    free(page);
    free(picture);
    free(dir);
}
