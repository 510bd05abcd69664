/* now: the time stamp counter (what the trace clock x86-tsc shows) and the monotonic clock in ns. */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

int main(void)
{
	struct timespec t;
	unsigned long long tsc = __rdtsc();

	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("%llu %lld\n", tsc, t.tv_sec * 1000000000LL + t.tv_nsec);
	return 0;
}
