/* Sentences in columns, a word a line. */
#include "trainer/tasks/examples_reader.h"

#include <string.h>

/* Cuts line at tabs, or without any at runs of spaces; the number of pieces, the first and the last of them out. */
static int split_columns(char *line, char **word, char **label) {
    int n = 0;
    const char *between = strchr(line, '\t') ? "\t" : " ";
    *word = *label = line;
    for (char *at = line; at; n++) {
        char *stop = strpbrk(at, between);
        if (n == 0) *word = at;
        *label = at;
        if (stop) *stop++ = 0;
        at = stop && *between == ' ' ? stop + strspn(stop, " ") : stop;
        if (at && *between == ' ' && *at == 0) at = NULL; /* spaces at the end of a line */
    }
    return n;
}

int examples_read_conll(Examples *e, const Labels *known, Err *err) {
    Lines l;
    int wanted = 0;
    e->kind = EXAMPLES_SENTENCES;
    if (lines_open(&l, e->path, &e->file, err)) return -1;
    for (char *line; (line = lines_next(&l));) {
        char *word, *label;
        if (text_is_blank(line)) {
            examples_end_example(e);
            continue;
        }
        int n = split_columns(line, &word, &label);
        if (n < 2) return lines_fail(&l, err, "one column, must be a word and its label");
        if (wanted && n != wanted) return lines_fail(&l, err, "%d columns, the first word has %d", n, wanted);
        wanted = n;
        if (!strcmp(word, "-DOCSTART-")) continue;
        if (examples_add(e, &l, word, NULL, label, known, err)) return -1;
    }
    examples_end_example(e);
    return 0;
}
