/* scripts/diversity.sh, which trains, asks daemons and measures, at its smallest. */
#include "tests/support/test.h"
#include "tests/support/study.h"
#include "tests/trainer/test_trainer.h"

#include <stdlib.h>
#include <string.h>

TEST(diversity_study) {
    if (SANITIZED) SKIP("asks the trainer what its own tests ask it");
    if (system("python3 --version >/dev/null 2>&1")) SKIP("needs python3");
    static const char *const documents[] = {"frontier.csv", "frontier.svg", "table.md"};
    const char *dir = test_dir(), *text = trainer_text_file(60000);
    char command[1024];
    snprintf(
        command, sizeof command,
        "split -n 2 %s %s/book- && STEPS=4 PROMPTS=3 SAMPLES=4 TOKENS=6 HIDDEN=16 LAYERS=1 VOCAB=300 JOBS=1 EPOCHS=1 "
        "MEMBERS=sequence CORPUS='%s/book-aa %s/book-ab' scripts/diversity.sh %s/runs %s/docs",
        text, dir, dir, dir, dir, dir);
    char *first[3];
    study_run_twice(dir, command, "sequence has written", 3, documents, first);
    CHECK(first[0] && strstr(first[0], "\nsequence,0,8,") && strstr(first[0], "\nnone,0,0,"));
    CHECK(first[1] && strstr(first[1], "temperature, no noise") && strstr(first[1], "</svg>"));
    CHECK(first[2] && strstr(first[2], "Better than both temperatures") && strstr(first[2], "| book-ab |"));
    for (int i = 0; i < 3; i++) free(first[i]);
}
