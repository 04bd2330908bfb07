/* chart: lines and bands as SVG. Colours have a second set for prefers-color-scheme: dark; the palette is Okabe and
 * Ito's, which those who confuse red and green can tell apart. */
#ifndef NOISED_CHART_H
#define NOISED_CHART_H

#include "base/err.h"

enum { CHART_COLORS = 6 };

typedef struct ChartLine {
    const char *name; /* in the legend; NULL: not there */
    const double *x, *y;
    const double *low, *high; /* a band around the line; NULL: none */
    int n;
    double color; /* 0 .. CHART_COLORS - 1: of the palette; -1 - f, f in 0..1: a place on a scale from blue to yellow */
    bool faint;
} ChartLine;

typedef struct Chart {
    const char *title, *x_title;
    const ChartLine *lines;
    int n_lines;
} Chart;

/* All charts below each other, x from 0 on, into `path`, atomically. Values that are not finite are left out. */
int charts_save(const Chart *charts, int n, const char *title, const char *path, Err *err);

#endif
