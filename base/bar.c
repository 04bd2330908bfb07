#include "base/bar.h"

#include <string.h>
#include <sys/ioctl.h>

enum { MIN_BAR = 8, MAX_BAR = 24, USUAL_WIDTH = 80 };

void bar_duration(double seconds, char out[32]) {
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 32, "%ld:%02ld", s / 60, s % 60);
}

/* Of the terminal now: windows change. One column stays free, for a line that fills the last one wraps on some. */
static size_t room(FILE *terminal) {
    struct winsize w;
    bool known = ioctl(fileno(terminal), TIOCGWINSZ, &w) == 0 && w.ws_col > 0;
    return (known ? w.ws_col : USUAL_WIDTH) - 1;
}

/* The texts in a row, without the blanks in front. */
static size_t join(char line[BAR_TEXTS * BAR_TEXT], BarText *texts, int count) {
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        const char *text = texts[i] + (n ? 0 : strspn(texts[i], " "));
        n += (size_t)sprintf(line + n, "%s", text);
    }
    return n;
}

void bar_draw(FILE *terminal, BarText *texts, int n, double done) {
    char line[BAR_TEXTS * BAR_TEXT];
    BUG_ON(n > BAR_TEXTS);
    size_t width = room(terminal), used;
    for (int i = n - 2; (used = join(line, texts, n)) > width && i >= 0; i--) *texts[i] = 0;
    size_t bar = MIN(width - MIN(width, used + 3), (size_t)MAX_BAR), filled = (size_t)((double)bar * done);
    fputs("\r\033[K", terminal);
    if (bar >= MIN_BAR) {
        fputc('[', terminal);
        for (size_t i = 0; i < bar; i++) fputc(i < filled ? '#' : '.', terminal);
        fputs("] ", terminal);
    }
    fprintf(terminal, "%.*s", (int)width, line);
}
