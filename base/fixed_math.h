/* fixed_math: exp, log, pow, sine and cosine with the same bits on every machine.
 *
 * They are made of IEEE additions, products and quotients of doubles and of integer arithmetic alone, in a written
 * order, and no compiler may fuse them (-ffp-contract=off); the C library's own differ from release to release and from
 * CPU to CPU. What reaches an answer or a checkpoint takes these, never libm's. sqrt, fma, floor, rint, ldexp are exact
 * in IEEE terms, printf and strtod in the C library's: those stay.
 *
 * Results are within 0.53 ulp (exp), 0.57 (log), 0.82 (sine, cosine), 2 (pow, while |y log x| < 20). Rounded to float
 * they are the correctly rounded function of every float but 11 (log 5, sine 2, cosine 4), for which they are its other
 * neighbour: tests/base/test_fixed_math.c goes through all of them. NaN in, NaN out. Any thread. */
#ifndef NOISED_FIXED_MATH_H
#define NOISED_FIXED_MATH_H

double fixed_exp(double x);
double fixed_log(double x);           /* of 0 -INFINITY, below NaN */
double fixed_pow(double x, double y); /* x >= 0, |y| < 2^900; 0^0 = 1 */

/* Radians, |x| < 2^128, which all floats are; NaN beyond. */
void fixed_sin_cos(double x, double *sine, double *cosine);
double fixed_sin(double x);
double fixed_cos(double x);

#endif
