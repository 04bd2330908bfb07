/* scripts/family, which trains the members under three protocols and compares them, at its smallest. */
#include "tests/support/test.h"
#include "tests/support/study.h"
#include "tests/trainer/test_trainer.h"

#include <stdlib.h>
#include <string.h>

static const char plan[] = "HIDDEN=32 LAYERS=1 VOCAB=300 RATES='1e-3 4e-3' SEEDS=2 ROUNDS=1 MEMBERS=noble JOBS=2";

static void write_command(char out[1024], const char *dir, const char *text, const char *more) {
    snprintf(out, 1024, "%s CORPUS=%s %s python3 -B scripts/family/family.py %s/runs %s/docs", plan, text, more, dir,
             dir);
}

static void check_refused(const char *dir, const char *text, const char *more, const char *why) {
    int status;
    char command[1024];
    write_command(command, dir, text, more);
    char *said = study_run(dir, command, &status);
    CHECK_MSG(status != 0 && strstr(said, why), "%s: %s", more, said);
    free(said);
}

TEST(family_study) {
    if (SANITIZED) SKIP("asks the trainer what its own tests ask it");
    if (system("python3 --version >/dev/null 2>&1")) SKIP("needs python3");
    static const char *const documents[] = {"table.md", "runs.csv", "curves.csv", "differences.svg"};
    const char *dir = test_dir(), *text = trainer_text_file(60000);
    char *first[4], command[1024];
    write_command(command, dir, text, "STEPS=20 SWEEP=10");
    study_run_twice(dir, command, "noble-fitted.20.", 4, documents, first);
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
}
