/* scripts/family, which trains the members under three protocols and compares them, at its smallest. */
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <stdlib.h>
#include <string.h>

static const char plan[] = "HIDDEN=32 LAYERS=1 VOCAB=300 RATES='1e-3 4e-3' SEEDS=2 ROUNDS=1 MEMBERS=noble JOBS=2";

/* Runs it with `plan` and what else is given; what it says is malloc'ed. */
static char *family(const char *dir, const char *text, const char *more, int *status) {
    char command[1024], log[512];
    snprintf(command, sizeof command,
             "%s CORPUS=%s %s python3 -B scripts/family/family.py %s/runs %s/docs >%s/log 2>&1", plan, text, more, dir,
             dir, dir);
    *status = system(command);
    snprintf(log, sizeof log, "%s/log", dir);
    return test_read_file(log, NULL);
}

static char *document(const char *dir, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/docs/%s", dir, name);
    return test_read_file(path, NULL);
}

static void check_refused(const char *dir, const char *text, const char *more, const char *why) {
    int status;
    char *said = family(dir, text, more, &status);
    CHECK_MSG(status != 0 && strstr(said, why), "%s: %s", more, said);
    free(said);
}

TEST(family_study) {
    if (system("python3 --version >/dev/null 2>&1")) SKIP("needs python3");
    static const char *const documents[] = {"table.md", "runs.csv", "curves.csv", "differences.svg"};
    char *dir = test_dir(), *text = trainer_text_file(60000), *first[4] = {0};
    for (int again = 0; again < 2; again++) {
        int status;
        char *said = family(dir, text, "STEPS=20 SWEEP=10", &status);
        CHECK_MSG(status == 0, "%s", said);
        /* what is there is not trained again, and the documents are the same */
        CHECK_MSG(!again == !!strstr(said, "noble-fitted.20."), "%s", said);
        free(said);
        for (int i = 0; i < 4 && status == 0; i++) {
            char *now = document(dir, documents[i]);
            CHECK_MSG(!again || !strcmp(now, first[i]), "%s differs", documents[i]);
            if (again)
                free(now);
            else
                first[i] = now;
        }
    }
    CHECK(first[0] && strstr(first[0], "\n| noble | ") && strstr(first[0], "blind"));
    /* the rates are those of the sweep, and what is equal is the same run */
    CHECK(first[1] && strstr(first[1], "\nown,noble,2,noble,") &&
          strstr(first[1], "\nparameters,noble,1,noble-fitted,"));
    CHECK(first[1] && strstr(first[1], "\nparameters,mha,2,mha,") && strstr(first[1], "\ntime,noble,2,noble,"));
    CHECK(first[3] && strstr(first[3], "noble</text>") && strstr(first[3], "</svg>"));
    check_refused(dir, text, "STEPS=15", "STEPS 15 and SWEEP 15 must be multiples of 10");
    check_refused(dir, text, "STEPS=20 LAYERS=2", "are of another shape");
    check_refused(dir, text, "STEPS=20 MEMBERS=nobel", "MEMBERS names nobel");
    for (int i = 0; i < 4; i++) free(first[i]);
    free(dir);
    free(text);
}
