#include "trainer/best.h"

#include "base/files.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/runlog.h"
#include "weights/carry.h"
#include "weights/checkpoint.h"

#include <math.h>

static void take(void *context, const RunLogLine *line) {
    double loss = runlog_number(line, "best");
    if (!isnan(loss)) *(Best *)context = (Best){.loss = loss, .step = (int64_t)line->step};
}

int best_load(Best *b, const char *dir, Err *err) {
    *b = (Best){.loss = INFINITY};
    return runlog_read(dir, take, b, err);
}

int best_keep(Best *b, const Training *t, int64_t step, double loss, cJSON *line, Err *err) {
    char dir[PATH_BYTES], path[PATH_BYTES];
    if (!(loss < b->loss)) return 0;
    *b = (Best){.loss = loss, .step = step};
    cJSON_AddNumberToObject(line, "best", loss);
    Dtype dtype = t->settings->save_dtype == PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32;
    if (path_join(dir, t->settings->out, BEST_FOLDER, err) || path_join(path, dir, "tokenizer.json", err)) return -1;
    if (folder_create(dir, NULL, err) || tokenizer_json_save(t->tokenizer, path, err) ||
        carry_over(t->settings->out, dir, &t->model->cfg, NULL, err))
        return -1;
    return checkpoint_save(dir, t->model, dtype, (uint64_t)step, err);
}
