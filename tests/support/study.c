#include "tests/support/study.h"

#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static char *read_in(const char *dir, const char *name) { return test_read_file(test_text("%s/%s", dir, name), NULL); }

char *study_run(const char *dir, const char *command, int *status) {
    *status = system(test_text("%s >%s/log 2>&1", command, dir));
    return read_in(dir, "log");
}

void study_run_twice(const char *dir, const char *command, const char *work, int n, const char *const documents[],
                     char *texts[]) {
    for (int i = 0; i < n; i++) texts[i] = NULL;
    for (int again = 0; again < 2; again++) {
        int status;
        char *said = study_run(dir, command, &status);
        CHECK_MSG(status == 0, "%s", said);
        CHECK_MSG(!again == !!strstr(said, work), "%s", said);
        free(said);
        for (int i = 0; i < n && status == 0; i++) {
            char *now = read_in(dir, test_text("docs/%s", documents[i]));
            CHECK_MSG(!again || !strcmp(now, texts[i]), "%s differs", documents[i]);
            if (again)
                free(now);
            else
                texts[i] = now;
        }
    }
}
