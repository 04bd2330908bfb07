/* power: what may be on the disk after the power went at some moment of a record (record.h).
 *
 * The model is what POSIX lets a file system do, and no more than ext4 has done in one mount option or another:
 * - fsync of a file: its bytes and its length are there, its name perhaps not;
 * - fsync of a folder: the names in it are as they were then, and what they stand for perhaps not;
 * - each name that came, went or was renamed since may have done so or not, whatever the others did; a rename happens
 *   whole or not at all;
 * - of a file's writes since: none, all, the first of them, all with the last cut at a sector, the length of all
 *   without their bytes (zeros), or the last without those before it;
 * - nothing else changes. */
#ifndef NOISED_TEST_POWER_H
#define NOISED_TEST_POWER_H

#include "tests/faults/record.h"

#include <stdbool.h>

typedef struct Power Power;

/* The record in the file, of a program that was started in a folder with the contents of `before`. Of a moment with
 * more choices than `most` about so many are looked at. */
Power *power_open(const char *record, const char *before, int most);
void power_close(Power *p);

int power_states(const Power *p); /* different ones, in the order of the moments */
/* Writes state i into dir, a new folder. `what`: in which it differs, for a report. */
void power_write(const Power *p, int i, const char *dir, char what[200]);

/* What its first thread did, a line for each but for writes of the same file behind each other; then, behind "beside:",
 * the same of all others. How the two lie to each other may be time's choice. malloc'ed. */
char *power_order(const Power *p);

#endif
