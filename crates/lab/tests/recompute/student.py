"""Student's distribution and Kendall's test, from their definitions.

`python3 student.py` compares them with printed tables.
"""

import collections
import math


def beta(x, a, b):
    """The regularized incomplete beta function: Lentz's continued fraction, DLMF 8.17.22."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny, c, d = 1e-300, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    fraction = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + term * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + term / c
            c = c if abs(c) > tiny else tiny
            fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            return front * fraction / a
    raise ArithmeticError("the continued fraction does not converge")


def tail(t, freedom):
    """The probability of more than t, for t of 0 and more."""
    return beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def quantile(share, freedom):
    """The value that a share of 0.5 and more does not exceed."""
    low, high = 0.0, 1.0
    while tail(high, freedom) > 1 - share:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > 1 - share else (low, middle)
    return (low + high) / 2


def kendall(sample):
    """p of Kendall's test of a sample against its order: exact for up to 40 values without ties."""
    n = len(sample)
    pairs = [(sample[i], sample[j]) for i in range(n) for j in range(i + 1, n)]
    rising, falling = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
    ties = [count for count in collections.Counter(sample).values() if count > 1]
    if not ties and n <= 40:
        if rising == falling:
            return 1.0
        # Permutations by their number of inversions.
        counts = [1]
        for more in range(2, n + 1):
            longer = [0] * (len(counts) + more - 1)
            for inversions, count in enumerate(counts):
                for added in range(more):
                    longer[inversions + added] += count
            counts = longer
        return min(1.0, 2 * sum(counts[: min(rising, falling) + 1]) / math.factorial(n))
    variance = n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)
    return math.erfc(abs(rising - falling) / math.sqrt(variance / 18) / math.sqrt(2))


def near(got, printed, half_unit):
    assert abs(got - printed) <= half_unit, (got, printed)


if __name__ == "__main__":
    # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
    for share, freedom, printed in [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 9, 2.262),
        (0.95, 4, 2.132),
        (0.999, 30, 3.385),
        (0.9, 100, 1.290),
    ]:
        near(quantile(share, freedom), printed, 6e-4)
    # `t.test(extra ~ group, data = sleep)` of R, in pairs and not.
    near(2 * tail(4.0621, 9), 0.002833, 5e-7)
    near(2 * tail(1.8608, 17.776), 0.07939, 2e-5)
    # `cor.test(1:9, x, method = "kendall")` of R with the example of its manual page.
    near(kendall([1, 2, 3, 4]), 1 / 12, 1e-12)
    near(kendall([1, 3, 2, 4, 5]), 2 * 5 / 120, 1e-12)
    print("as printed")
