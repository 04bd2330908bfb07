/* scripts/diversity.sh, which trains, asks daemons and measures, at its smallest. */
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <stdlib.h>
#include <string.h>

static char *document(const char *dir, const char *name) {
    char path[1024];
    size_t n;
    snprintf(path, sizeof path, "%s/docs/%s", dir, name);
    return test_read_file(path, &n);
}

TEST(diversity_study) {
    if (system("python3 --version >/dev/null 2>&1")) SKIP("needs python3");
    static const char *const documents[] = {"frontier.csv", "frontier.svg", "table.md"};
    char *dir = test_dir(), *text = trainer_text_file(60000), command[1024];
    snprintf(command, sizeof command,
             "STEPS=4 PROMPTS=3 SAMPLES=4 TOKENS=6 HIDDEN=16 LAYERS=1 VOCAB=300 JOBS=1 MEMBERS=sequence CORPUS=%s "
             "scripts/diversity.sh %s/runs %s/docs >%s/log 2>&1",
             text, dir, dir, dir);
    char *first[3] = {0};
    for (int again = 0; again < 2; again++) {
        int status = system(command);
        char log[1024];
        size_t n;
        snprintf(log, sizeof log, "%s/log", dir);
        char *said = test_read_file(log, &n);
        CHECK_MSG(status == 0, "%s", said);
        /* what is there is not asked again, and the figures are the same */
        CHECK_MSG(!again == !!strstr(said, "sequence has written"), "%s", said);
        free(said);
        for (int i = 0; i < 3 && status == 0; i++) {
            char *now = document(dir, documents[i]);
            CHECK_MSG(!again || !strcmp(now, first[i]), "%s differs", documents[i]);
            if (again)
                free(now);
            else
                first[i] = now;
        }
    }
    CHECK(first[0] && strstr(first[0], "\nsequence,0,8,") && strstr(first[0], "\nnone,0,0,"));
    CHECK(first[1] && strstr(first[1], "temperature, no noise") && strstr(first[1], "</svg>"));
    CHECK(first[2] && strstr(first[2], "Better than both temperatures"));
    for (int i = 0; i < 3; i++) free(first[i]);
    free(dir);
    free(text);
}
