/* test_batch: `noised --batch` in a folder of its own. A program that cannot be started, or a file that cannot be
 * written, is a bug of the test. */
#ifndef NOISED_TEST_BATCH_H
#define NOISED_TEST_BATCH_H

#include "base/buffer.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"

typedef struct BatchPlace {
    const char *dir;
    char in[300], out[300], model[300];
    TestCheckpoint kind;
} BatchPlace;

typedef struct BatchResults {
    cJSON *lines[4096];
    char *text; /* of the file; "" where there is none */
    int n;
} BatchResults;

BatchPlace batch_place(TestCheckpoint kind);

/* A request's line behind those in *b, which become the file `in`. */
void batch_put(Buffer *b, const char *id, const char *url, const char *body);
void batch_write(const BatchPlace *p, Buffer *b);

/* Its exit status; what it says goes to *said, which may be NULL and is otherwise the test's to free. */
int batch_to_its_end(const BatchPlace *p, const char *options, char **said);

BatchResults batch_results(const BatchPlace *p);
void batch_results_free(BatchResults *r);
const cJSON *batch_result(const BatchResults *r, const char *custom_id); /* NULL: there is none */

#endif
