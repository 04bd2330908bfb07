#include "tests/bench/load_workload.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>

static void put_text(FILE *f, const char *text) {
    fputc('"', f);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p < ' ')
            fprintf(f, "\\u%04x", *p);
        else
            fputc(*p, f);
    }
    fputc('"', f);
}

/* Ids that every vocabulary has and that are nobody's special tokens. */
static void put_ids(FILE *f, int n, Draws *d) {
    enum { LOWEST = 3, HIGHEST = 255 };
    for (int i = 0; i < n; i++) fprintf(f, "%c%d", i ? ',' : '[', LOWEST + (int)draw_below(d, HIGHEST - LOWEST + 1));
    fputc(']', f);
}

static char *make_body(const Workload *w, int index) {
    char *body;
    size_t size;
    Draws d = draws_open(w->seed, DRAW_TEST, (uint32_t)index);
    FILE *f = open_memstream(&body, &size);
    BUG_ON(!f);
    fputs("{\"prompt\":", f);
    if (w->prompt)
        put_text(f, w->prompt);
    else
        put_ids(f, w->prompt_tokens, &d);
    fprintf(f,
            ",\"max_tokens\":%d,\"ignore_eos\":true,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
            "\"temperature\":0.8,\"top_k\":40,\"top_p\":0.95,\"min_p\":0,\"seed\":%u,"
            "\"noise_seed\":%d",
            w->max_tokens, draw_u32(&d) >> 1, index);
    if (w->model) {
        fputs(",\"model\":", f);
        put_text(f, w->model);
    }
    fputc('}', f);
    BUG_ON(fclose(f));
    return body;
}

LoadRequest *workload_make(const Workload *w, const char *url, int n) {
    LoadRequest *requests = xcalloc((size_t)MAX(n, 1), sizeof *requests);
    Draws arrivals = draws_open(w->seed, DRAW_ORDER, 0);
    double at = 0;
    for (int i = 0; i < n; i++) {
        if (w->rate > 0) at -= log(draw_uniform(&arrivals)) / w->rate;
        requests[i] = (LoadRequest){.url = url, .body = make_body(w, w->repeated && i % 2 == 0 ? 0 : i), .at = at};
    }
    return requests;
}

void workload_free(LoadRequest *requests, int n) {
    for (int i = 0; i < n; i++) free((char *)(uintptr_t)requests[i].body);
    free(requests);
}
