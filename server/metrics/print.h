/* print: Prometheus' text format 0.0.4, line by line. A family is its head, then all its series. */
#ifndef NOISED_METRICS_PRINT_H
#define NOISED_METRICS_PRINT_H

#include "base/buffer.h"

void print_head(Buffer *b, const char *name, const char *type, const char *help);

/* labels: "" or a="b",... */
void print_series(Buffer *b, const char *name, const char *labels, double value);

/* A family of one series without labels. */
void print_alone(Buffer *b, const char *name, const char *type, const char *help, double value);

/* A label's value in its quotes. */
void print_label_value(Buffer *b, const char *text);

/* The families process_*, under the names that Prometheus' own clients give them: what the kernel says about this
 * process now. A figure that it does not tell is left out. started: in seconds since 1970. */
void print_process(Buffer *b, double started);

#endif
