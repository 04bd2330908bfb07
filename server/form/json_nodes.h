/* json_nodes: JSON's own syntax as nodes, what every schema is made of. Between values stands nothing, a space, or the
 * end of a line and up to 20 blanks; nothing in front of a comma or a colon, nor around the whole. Numbers have at most
 * 16 digits before and behind the point and an exponent of two, so that a double holds them. A string's escapes name
 * neither U+0000 nor half of a surrogate pair, and whatever its text, a character counts once. */
#ifndef NOISED_FORM_JSON_NODES_H
#define NOISED_FORM_JSON_NODES_H

#include "server/form/graph.h"

typedef struct JsonNodes {
    int space, comma; /* comma: with the space behind it */
    int character, string;
    int integer, number, boolean, null;
    int array, object, value; /* any */
} JsonNodes;

void json_nodes_init(JsonNodes *j, Form *f);

int json_node_class(Form *f, const Range *ranges, int n); /* one of these in a string: as it is, or its escape */
int json_node_array(Form *f, const JsonNodes *j, int items);
int json_node_object(Form *f, const JsonNodes *j, int members);         /* members: all, with their commas */
int json_node_key(Form *f, const JsonNodes *j, const char *name);       /* with its colon */
int json_node_literal(Form *f, const JsonNodes *j, const cJSON *value); /* its members in their order */

/* What stands for a value without members, to be freed; NULL when memory runs out. */
char *json_literal_text(const cJSON *value);

/* One of words[n], each once, as they stand; sorts them. */
int graph_words(Form *f, char **words, int n);

/* Integers from low to high, within JSON_INTEGERS. */
#define JSON_INTEGERS INT64_C(9999999999999999)
int json_node_integers(Form *f, int64_t low, int64_t high);
/* Numbers without an exponent; `open`: the bound itself, below JSON_OPEN in size, is not among them. Beside such a
 * bound they have so few digits that none rounds to it. */
enum { JSON_OPEN = 1000000 };
int json_node_numbers(Form *f, int64_t low, bool low_open, int64_t high, bool high_open);

#endif
