/* Texts with one label each: JSON lines, TSV with a header, CoLA's and TREC's files. */
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "trainer/tasks/examples_reader.h"

#include <stdlib.h>
#include <string.h>

typedef enum Column { COLUMN_TEXT, COLUMN_SECOND, COLUMN_LABEL, COLUMN_SCORE, COLUMN_PASSED } Column;
static const char *const kinds[] = {"text", "text_b", "label", "score"};
enum { COLUMNS_MOST = 16, JSON_VALUES = 64, LABEL_NUMBER_MOST = 999999 };

/* What a key of a JSON line or a column of a TSV file holds: ours first, then those of GLUE's files. Where a text is
 * from, its number, its parse tree and what single annotators said are passed over. */
static const struct {
    const char *name;
    Column column;
} columns[] = {
    {"text", COLUMN_TEXT},
    {"text_b", COLUMN_SECOND},
    {"label", COLUMN_LABEL},
    {"sentence", COLUMN_TEXT},
    {"sentence1", COLUMN_TEXT},
    {"sentence2", COLUMN_SECOND},
    {"idx", COLUMN_PASSED},
    {"index", COLUMN_PASSED},
    {"#1 String", COLUMN_TEXT},
    {"#2 String", COLUMN_SECOND},
    {"Quality", COLUMN_LABEL},
    {"#1 ID", COLUMN_PASSED},
    {"#2 ID", COLUMN_PASSED},
    /* QQP, QNLI */
    {"question1", COLUMN_TEXT},
    {"question2", COLUMN_SECOND},
    {"is_duplicate", COLUMN_LABEL},
    {"id", COLUMN_PASSED},
    {"qid1", COLUMN_PASSED},
    {"qid2", COLUMN_PASSED},
    {"question", COLUMN_TEXT},
    /* MNLI */
    {"gold_label", COLUMN_LABEL},
    {"promptID", COLUMN_PASSED},
    {"pairID", COLUMN_PASSED},
    {"genre", COLUMN_PASSED},
    {"sentence1_binary_parse", COLUMN_PASSED},
    {"sentence2_binary_parse", COLUMN_PASSED},
    {"sentence1_parse", COLUMN_PASSED},
    {"sentence2_parse", COLUMN_PASSED},
    {"label1", COLUMN_PASSED},
    {"label2", COLUMN_PASSED},
    {"label3", COLUMN_PASSED},
    {"label4", COLUMN_PASSED},
    {"label5", COLUMN_PASSED},
    /* STS-B */
    {"score", COLUMN_SCORE},
    {"filename", COLUMN_PASSED},
    {"year", COLUMN_PASSED},
    {"old_index", COLUMN_PASSED},
    {"source1", COLUMN_PASSED},
    {"source2", COLUMN_PASSED},
};

/* Beside a question (QNLI) a sentence is the second text. */
static int find_column(const char *name, bool question) {
    if (question && !strcmp(name, "sentence")) return COLUMN_SECOND;
    for (size_t i = 0; i < COUNTOF(columns); i++)
        if (!strcmp(columns[i].name, name)) return (int)columns[i].column;
    return -1;
}

static int add_text(Examples *e, const Lines *l, const char *text, const char *second, const char *label,
                    const Labels *known, Err *err) {
    if (examples_add(e, l, text, second, label, known, err)) return -1;
    examples_end_example(e);
    return 0;
}

/* The value as a string, written at *room over the line itself: there is room, as unescaped and with a NUL for its
 * quotes a string takes no more, and a number no more than its key and itself. */
static const char *place_string(const cJSON *v, char **room, bool number, Shown *shown) {
    int64_t integer;
    const char *text = v->valuestring;
    if (number && json_integer(v, -LABEL_NUMBER_MOST, LABEL_NUMBER_MOST, &integer)) {
        snprintf(shown->text, sizeof shown->text, "%lld", (long long)integer);
        text = shown->text;
    } else if (!cJSON_IsString(v))
        return NULL;
    size_t n = strlen(text) + 1;
    char *out = memcpy(*room, text, n);
    *room += n;
    return out;
}

static int add_json(Examples *e, const Lines *l, const cJSON *o, char *line, const Labels *known, Err *err) {
    const char *found[COLUMN_PASSED] = {NULL};
    char *room = line;
    if (!cJSON_IsObject(o)) return lines_fail(l, err, "not an object: %s", show_json(o).text);
    bool question = json_field(o, "question");
    for (const cJSON *v = o->child; v; v = v->next) {
        int column = find_column(v->string, question);
        Shown shown;
        if (column < 0 || column == COLUMN_SCORE) return lines_fail(l, err, "unknown key \"%.60s\"", v->string);
        if (column == COLUMN_PASSED || (column == COLUMN_SECOND && cJSON_IsNull(v))) continue;
        if (found[column]) return lines_fail(l, err, "\"%s\" is a second %s", v->string, kinds[column]);
        found[column] = place_string(v, &room, column == COLUMN_LABEL, &shown);
        if (!found[column])
            return lines_fail(l, err, "\"%s\" is %s, must be a string%s", v->string, show_json(v).text,
                              column == COLUMN_LABEL ? " or a small integer" : "");
    }
    if (!found[COLUMN_TEXT]) return lines_fail(l, err, "\"text\" is missing");
    if (!found[COLUMN_LABEL]) return lines_fail(l, err, "\"label\" is missing");
    return add_text(e, l, found[COLUMN_TEXT], found[COLUMN_SECOND], found[COLUMN_LABEL], known, err);
}

int examples_read_jsonl(Examples *e, const Labels *known, Err *err) {
    Lines l;
    Err why;
    if (lines_open(&l, e->path, &e->file, err)) return -1;
    for (char *line; (line = lines_next_filled(&l));) {
        cJSON *o = json_parse(line, strlen(line), 2, JSON_VALUES, &why);
        int rc = o ? add_json(e, &l, o, line, known, err) : lines_fail(&l, err, "%s", why.msg);
        cJSON_Delete(o);
        if (rc) return -1;
    }
    return 0;
}

/* Cuts line at its tabs; how many pieces there are, COLUMNS_MOST of them in cells. */
static int split_tabs(char *line, char *cells[COLUMNS_MOST]) {
    int n = 0;
    for (char *at = line; at; n++) {
        char *tab = strchr(at, '\t');
        if (n < COLUMNS_MOST) cells[n] = at;
        if (tab) *tab++ = 0;
        at = tab;
    }
    return n;
}

/* place[column]: which cell holds it, -1: none. */
static int read_header(const Lines *l, char *const *cells, int n, int place[COLUMN_PASSED], Err *err) {
    bool question = false;
    for (int k = 0; k < COLUMN_PASSED; k++) place[k] = -1;
    for (int i = 0; i < n; i++) question |= !strcmp(cells[i], "question");
    for (int i = 0; i < n; i++) {
        int column = find_column(cells[i], question);
        if (column < 0)
            return lines_fail(l, err,
                              "the header names an unknown column \"%.60s\"; needed are text and label (CoLA's files "
                              "have no header: --format cola)",
                              cells[i]);
        if (column == COLUMN_PASSED) continue;
        if (place[column] >= 0) return lines_fail(l, err, "column \"%s\" is a second %s", cells[i], kinds[column]);
        place[column] = i;
    }
    if (place[COLUMN_TEXT] < 0) return lines_fail(l, err, "the header has no column \"text\"");
    if (place[COLUMN_LABEL] >= 0 && place[COLUMN_SCORE] >= 0)
        return lines_fail(l, err, "column \"score\" is a second label");
    if (place[COLUMN_LABEL] < 0 && place[COLUMN_SCORE] < 0)
        return lines_fail(l, err, "the header has no column \"label\"");
    return 0;
}

/* How alike two texts are, 0 to 5, as the nearest of six labels, in place. */
static const char *score_label(const Lines *l, char *cell, Err *err) {
    char *end;
    double score = strtod(cell, &end);
    if (end == cell || *end || !(score >= 0 && score <= 5)) {
        lines_fail(l, err, "score is \"%.40s\", must be 0 to 5", cell);
        return NULL;
    }
    snprintf(cell, 2, "%d", (int)(score + 0.5));
    return cell;
}

int examples_read_tsv(Examples *e, const Labels *known, Err *err) {
    Lines l;
    char *cells[COLUMNS_MOST];
    int place[COLUMN_PASSED];
    if (lines_open(&l, e->path, &e->file, err)) return -1;
    char *line = lines_next(&l);
    if (!line) return err_set(err, "%s: the file is empty", e->path);
    int wanted = split_tabs(line, cells);
    if (wanted > COLUMNS_MOST) return lines_fail(&l, err, "%d columns, at most %d", wanted, COLUMNS_MOST);
    if (read_header(&l, cells, wanted, place, err)) return -1;
    while ((line = lines_next(&l))) {
        int n = split_tabs(line, cells);
        if (n != wanted) return lines_fail(&l, err, "%d columns, the header has %d", n, wanted);
        const char *second = place[COLUMN_SECOND] < 0 ? NULL : cells[place[COLUMN_SECOND]];
        const char *label =
            place[COLUMN_LABEL] < 0 ? score_label(&l, cells[place[COLUMN_SCORE]], err) : cells[place[COLUMN_LABEL]];
        if (!label || add_text(e, &l, cells[place[COLUMN_TEXT]], second, label, known, err)) return -1;
    }
    return 0;
}

int examples_read_cola(Examples *e, const Labels *known, Err *err) {
    enum { COLA_LABEL = 1, COLA_TEXT = 3, COLA_COLUMNS = 4 };
    Lines l;
    char *cells[COLUMNS_MOST];
    if (lines_open(&l, e->path, &e->file, err)) return -1;
    for (char *line; (line = lines_next(&l));) {
        int n = split_tabs(line, cells);
        if (n != COLA_COLUMNS) return lines_fail(&l, err, "%d columns, CoLA's files have %d", n, COLA_COLUMNS);
        if (add_text(e, &l, cells[COLA_TEXT], NULL, cells[COLA_LABEL], known, err)) return -1;
    }
    return 0;
}

int examples_read_trec(Examples *e, const Labels *known, Err *err) {
    Lines l;
    if (lines_open(&l, e->path, &e->file, err)) return -1;
    for (char *line; (line = lines_next(&l));) {
        char *text = strchr(line, ' ');
        if (!text) return lines_fail(&l, err, "no space between a label and a text");
        *text++ = 0;
        line[strcspn(line, ":")] = 0;
        if (add_text(e, &l, text, NULL, line, known, err)) return -1;
    }
    return 0;
}
