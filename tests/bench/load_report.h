/* load_report: the figures of one run of the load generator, one row of its table. */
#ifndef NOISED_LOAD_REPORT_H
#define NOISED_LOAD_REPORT_H

#include "tests/bench/load_client.h"

/* What an answer must hold to count as good. Seconds. */
typedef struct Slo {
    double first; /* to the first text */
    double gap;   /* between two pieces of text, on average over the answer */
} Slo;

typedef struct Spread {
    double p50, p90, p99; /* NaN when there was nothing to measure */
} Spread;

Spread spread_of(double *values, int n); /* sorts them */

enum { MOST_ERRORS = 8 };
typedef struct ErrorCount {
    int status, n; /* 0: no whole answer */
} ErrorCount;

/* Times count from when the request was due, so a server that makes everybody wait does not look fast. */
typedef struct Figures {
    double requests, good, tokens; /* a second; whole answers of status 200 only */
    Spread first, gap, total;      /* seconds */
    ErrorCount errors[MOST_ERRORS];
    int n_errors; /* kinds */
} Figures;

Figures figures_of(const LoadAnswer *answers, int n, double seconds, Slo slo);

/* Different texts among the answers 0, 2, 4 ... of a repeated workload; failed ones count as one more. */
int count_distinct(const LoadAnswer *answers, int n);

void report_head(void);
/* n_distinct of n_same answers to one and the same request; n_same 0: not tried. */
void report_row(const char *server, const char *load, const Figures *f, int n_distinct, int n_same);

#endif
