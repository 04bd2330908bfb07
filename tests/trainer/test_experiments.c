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
    const char *build = getenv("BUILD");
    return system(test_text(
        "BUILD=%s RUNS=%s/runs DOCS=%s/docs DATA=%s SEEDS=2 EPOCHS=2 VOCAB=300 python3 scripts/papers/lecture.py "
        ">%s/out 2>&1",
        build ? build : "build", dir, dir, dir, dir));
}

TEST(experiments_write_a_page_and_go_on) {
    if (system("command -v python3 >/dev/null")) SKIP("no python3");
    const char *dir = test_dir();
    mkdir(test_text("%s/trec", dir), 0777);
    write_questions(test_text("%s/trec/TREC.train.txt", dir), 60);
    CHECK_MSG(run(dir) != 0, "without its test set");
    write_questions(test_text("%s/trec/TREC.test.txt", dir), 12);
    for (int again = 0; again < 2; again++) {
        int rc = run(dir);
        char *out = test_read_file(test_text("%s/out", dir), NULL);
        bool begins = out && strstr(out, "begins");
        CHECK_MSG(rc == 0 && begins == !again, "%s", out ? out : "");
        free(out);
    }
    char *page = test_read_file(test_text("%s/docs/lecture.md", dir), NULL);
    char *picture = test_read_file(test_text("%s/docs/lecture.svg", dir), NULL);
    CHECK_MSG(page && strstr(page, "| lecture |") && picture && strstr(picture, "<polygon"), "%s", page ? page : "");
    free(page);
    free(picture);
}

/* An experiment of small language models on two pages of ours; its page. */
static char *ablation(const char *dir, const char *name, const char *plan) {
    const char *build = getenv("BUILD");
    int rc = system(
        test_text("OMP_NUM_THREADS=1 BUILD=%s RUNS=%s/runs DOCS=%s/docs CORPUS='docs/spec.md docs/noise.md' STEPS=1 %s "
                  "python3 scripts/papers/%s.py >%s/out 2>&1",
                  build ? build : "build", dir, dir, plan, name, dir));
    char *out = test_read_file(test_text("%s/out", dir), NULL);
    CHECK_MSG(rc == 0, "%s: %s", name, out ? out : "");
    free(out);
    return test_read_file(test_text("%s/docs/%s.md", dir, name), NULL);
}

/* The kernel's row has the difference of the logarithms of its perplexities, 22.50 and 23.67; FIGURES leaves out. */
TEST(experiments_of_sas) {
    if (system("command -v python3 >/dev/null")) SKIP("no python3");
    if (SANITIZED) SKIP("asks the trainer what its own tests ask it");
    const char *dir = test_dir();
    char *page = ablation(dir, "sas", "SEEDS=2 FIGURES=kernels");
    CHECK_MSG(page && strstr(page, "| Appendix E | sas-kernel-1 − mha | −0.051 |") && !strstr(page, "Figure 5 |"), "%s",
              page ? page : "");
    free(page);
    char *kept = test_read_file(test_text("%s/docs/sas.csv", dir), NULL);
    CHECK_MSG(kept && strstr(kept, "FIGURES=kernels\nnetwork,seed,loss,curve\n") && strstr(kept, "\nsas-kernel-7,2,"),
              "%s", kept ? kept : "");
    free(kept);
}

TEST(experiments_of_noble) {
    if (system("command -v python3 >/dev/null")) SKIP("no python3");
    if (SANITIZED) SKIP("asks the trainer what its own tests ask it");
    const char *dir = test_dir();
    char *page = ablation(dir, "noble", "SEEDS=2 FIGURES=ranks");
    CHECK_MSG(page && strstr(page, "| Table 1, rank 64 | rank-4 − kaiming | −0.040 |") &&
                  strstr(page, "| 4 (64) | +5.7% / +"),
              "%s", page ? page : "");
    free(page);
}

TEST(experiments_complete_prompts) {
    if (system("command -v python3 >/dev/null")) SKIP("no python3");
    if (SANITIZED) SKIP("asks the trainer what its own tests ask it");
    const char *dir = test_dir();
    char *page = ablation(dir, "completions", "");
    CHECK_MSG(page && strstr(page, "| Keats poetry is unique") && strstr(page, "| NoiseFormer V2 | "), "%s",
              page ? page : "");
    free(page);
}
