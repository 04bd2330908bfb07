#include "trainer/report/chart.h"

#include "base/atomic_file.h"
#include "base/buffer.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 720, HEIGHT = 250, LEFT = 64, RIGHT = 170, TOP = 34, BOTTOM = 40, LEGEND_STEP = 17, TICKS = 5 };

/* Classes, not CSS variables: many a viewer knows no variables. */
static const char style[] =
    "<style>\n"
    "text{font:12px sans-serif;fill:#24292f}.title{font-weight:bold}.paper{fill:#fff}.grid{stroke:#d8dee4}\n"
    "polyline{fill:none;stroke-width:1.8}.faint{stroke-width:1;opacity:.4}.band{opacity:.2;stroke:none}\n"
    ".c0{stroke:#0072b2}.b0{fill:#0072b2}.c1{stroke:#d55e00}.b1{fill:#d55e00}.c2{stroke:#009e73}.b2{fill:#009e73}.c3{"
    "stroke:#cc79a7}.b3{fill:#cc79a7}.c4{stroke:#b07d00}.b4{fill:#b07d00}.c5{stroke:#3a8fc4}.b5{fill:#3a8fc4}\n"
    "@media(prefers-color-scheme:dark){text{fill:#d0d7de}.paper{fill:#0d1117}.grid{stroke:#30363d}\n"
    ".c0{stroke:#56b4e9}.b0{fill:#56b4e9}.c1{stroke:#ff8c42}.b1{fill:#ff8c42}.c2{stroke:#2fd0a0}.b2{fill:#2fd0a0}.c3{"
    "stroke:#e6a3c8}.b3{fill:#e6a3c8}.c4{stroke:#f0c040}.b4{fill:#f0c040}.c5{stroke:#9ad4f5}.b5{fill:#9ad4f5}}\n"
    "</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";

typedef struct Range {
    double low, high;
} Range;

static void include(Range *r, const double *v, int n) {
    for (int i = 0; v && i < n; i++) {
        if (!isfinite(v[i])) continue;
        r->low = fmin(r->low, v[i]);
        r->high = fmax(r->high, v[i]);
    }
}

static Range padded(Range r) {
    if (r.low > r.high) return (Range){0, 1};
    if (r.low == r.high) return (Range){r.low - 0.5 * fmax(fabs(r.low), 1e-6), r.high + 0.5 * fmax(fabs(r.high), 1e-6)};
    return r;
}

/* 1, 2 or 5 times a power of ten, so that about TICKS of them fit. */
static double tick_step(Range r) {
    double raw = (r.high - r.low) / TICKS, power = pow(10, floor(log10(raw))), x = raw / power;
    return power * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
}

/* Tick i, NAN behind the last. Counted: where all values lie within a few ulp, v + step is v. */
static double tick_at(Range r, double step, int i) {
    double v = (ceil(r.low / step) + i) * step;
    return i <= 2 * TICKS && v <= r.high + step * 1e-9 ? v : NAN;
}

typedef struct Frame {
    Range x, y;
    double top;
} Frame;

static double at_x(const Frame *f, double x) {
    return LEFT + (x - f->x.low) / (f->x.high - f->x.low) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const Frame *f, double y) {
    return f->top + HEIGHT - BOTTOM - (y - f->y.low) / (f->y.high - f->y.low) * (HEIGHT - TOP - BOTTOM);
}

static void write_escaped(Buffer *out, const char *text) {
    for (; *text; text++) {
        const char *entity = *text == '<'   ? "&lt;"
                             : *text == '&' ? "&amp;"
                             : *text == '>' ? "&gt;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        buffer_text(out, entity ? entity : (char[]){*text, 0});
    }
}

static void write_axes(Buffer *out, const Frame *f, const Chart *c) {
    double step = tick_step(f->y), bottom = f->top + HEIGHT - BOTTOM, v;
    for (int i = 0; !isnan(v = tick_at(f->y, step, i)); i++)
        buffer_print(out,
                     "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
                     "text-anchor=\"end\">%.4g</text>\n",
                     LEFT, WIDTH - RIGHT, at_y(f, v), at_y(f, v), LEFT - 6, at_y(f, v) + 4, fabs(v) < step / 2 ? 0 : v);
    step = tick_step(f->x);
    for (int i = 0; !isnan(v = tick_at(f->x, step, i)); i++)
        buffer_print(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.6g</text>\n", at_x(f, v), bottom + 16,
                     v);
    buffer_print(out, "<text class=\"title\" x=\"%d\" y=\"%.1f\">", LEFT, f->top + 22);
    write_escaped(out, c->title);
    buffer_text(out, "</text>\n");
    buffer_print(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
                 bottom + 33, c->x_title);
}

/* The attributes of a line or, with `band`, of an area in that colour. */
static void print_color(double color, bool band, const char *more, char out[64]) {
    static const double stops[3][3] = {{59, 111, 181}, {31, 158, 137}, {184, 163, 35}};
    if (color >= 0) {
        snprintf(out, 64, "class=\"%c%d%s\"", band ? 'b' : 'c', (int)color % CHART_COLORS, more);
        return;
    }
    double p = 2 * fmin(fmax(-1 - color, 0), 1);
    int k = p < 1 ? 0 : 1, rgb[3];
    for (int i = 0; i < 3; i++) rgb[i] = (int)(stops[k][i] + (p - k) * (stops[k + 1][i] - stops[k][i]));
    snprintf(out, 64, "class=\"%s\" %s=\"#%02x%02x%02x\"", more, band ? "fill" : "stroke", rgb[0], rgb[1], rgb[2]);
}

static void write_point(Buffer *out, const Frame *f, double x, double y) {
    if (isfinite(x) && isfinite(y)) buffer_print(out, "%.1f,%.1f ", at_x(f, x), at_y(f, y));
}

static void write_line(Buffer *out, const Frame *f, const ChartLine *l) {
    char color[64];
    print_color(l->color, true, " band", color);
    if (l->low && l->high) {
        buffer_print(out, "<polygon %s points=\"", color);
        for (int i = 0; i < l->n; i++) write_point(out, f, l->x[i], l->high[i]);
        for (int i = l->n; i-- > 0;) write_point(out, f, l->x[i], l->low[i]);
        buffer_print(out, "\"/>\n");
    }
    print_color(l->color, false, l->faint ? " faint" : "", color);
    buffer_print(out, "<polyline %s points=\"", color);
    for (int i = 0; i < l->n; i++) write_point(out, f, l->x[i], l->y[i]);
    buffer_print(out, "\"/>\n");
}

static void write_legend(Buffer *out, const Frame *f, const Chart *c) {
    double y = f->top + TOP + 6;
    for (int i = 0; i < c->n_lines; i++) {
        char color[64];
        if (!c->lines[i].name) continue;
        print_color(c->lines[i].color, false, "", color);
        buffer_print(out,
                     "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" %s stroke-width=\"3\"/>"
                     "<text x=\"%d\" y=\"%.1f\">",
                     WIDTH - RIGHT + 12, WIDTH - RIGHT + 30, y, y, color, WIDTH - RIGHT + 36, y + 4);
        write_escaped(out, c->lines[i].name);
        buffer_text(out, "</text>\n");
        y += LEGEND_STEP;
    }
}

static void write_chart(Buffer *out, const Chart *c, double top) {
    Range x = {0, 0}, y = {INFINITY, -INFINITY};
    for (int i = 0; i < c->n_lines; i++) {
        const ChartLine *l = &c->lines[i];
        include(&x, l->x, l->n);
        include(&y, l->y, l->n);
        include(&y, l->low, l->n);
        include(&y, l->high, l->n);
    }
    Frame f = {.x = padded(x), .y = padded(y), .top = top};
    write_axes(out, &f, c);
    for (int i = 0; i < c->n_lines; i++) write_line(out, &f, &c->lines[i]);
    write_legend(out, &f, c);
}

static void write_all(Buffer *f, const Chart *charts, int n, const char *title) {
    buffer_print(f,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\" "
                 "aria-label=\"",
                 WIDTH, HEIGHT * n, WIDTH);
    write_escaped(f, title);
    buffer_text(f, "\">\n<title>");
    write_escaped(f, title);
    buffer_print(f, "</title>\n%s", style);
    for (int i = 0; i < n; i++) write_chart(f, &charts[i], (double)HEIGHT * i);
    buffer_print(f, "</svg>\n");
}

int charts_save(const Chart *charts, int n, const char *title, const char *path, Err *err) {
    Buffer text = {0};
    write_all(&text, charts, n, title);
    int rc = text.failed ? err_set(err, "%s: no memory to write it", path) : file_write(path, text.data, text.n, err);
    buffer_free(&text);
    return rc;
}
