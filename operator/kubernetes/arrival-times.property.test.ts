import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { ArrivalTimes } from './arrival-times.ts';
import type { Bracket } from './source.ts';
import { createManualClock } from './testing/manual-clock.ts';
import { CATCH_UP_MS } from './watch-health.ts';

const START = 1_000_000;
const KNOWN_AT = START - 500_000;

type Step =
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'open' | 'bookmark' | 'end' | 'cut' | 'list' };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait'), ms: fc.nat(200_000) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait'), ms: fc.nat(10_000) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('open', 'bookmark') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('end', 'cut', 'list') }) },
);

test('every interval that no watch covered before a list is reported as unseen', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const clock = createManualClock(START);
      const times = new ArrivalTimes(clock, KNOWN_AT);
      /** Everything that happened up to this time has arrived. */
      let arrivedUntil = KNOWN_AT;
      let openedAt: number | undefined;
      const unreported: Bracket[] = [];
      const close = (inOrder: boolean): void => {
        const now = clock.now();
        const hasCaughtUp = openedAt !== undefined && now - openedAt >= CATCH_UP_MS;
        if (hasCaughtUp) arrivedUntil = Math.max(arrivedUntil, inOrder ? now : (openedAt ?? 0));
        times.closed(inOrder);
        openedAt = undefined;
      };
      for (const each of steps) {
        const now = clock.now();
        if (each.kind === 'wait') void clock.advance(each.ms);
        else if (each.kind === 'list') {
          if (openedAt !== undefined) close(false);
          times.listed(now);
          const { from = Infinity, until } = times.unseen.at(-1) ?? {};
          const isReported = until === now && from <= arrivedUntil;
          if (!isReported && now - arrivedUntil >= 1_000)
            unreported.push({ from: arrivedUntil, until: now });
          arrivedUntil = now;
        } else if (openedAt === undefined) {
          // A refused watch ends like a cut one.
          if (each.kind === 'cut') times.closed(false);
          if (each.kind !== 'open') continue;
          times.opened();
          openedAt = now;
        } else if (each.kind === 'bookmark') {
          times.arriving({ kind: 'bookmark', resourceVersion: '1' }, now);
          times.taken(now);
          // An early arrival may be older than later ones.
          if (now - openedAt >= CATCH_UP_MS) arrivedUntil = now;
        } else if (each.kind !== 'open') close(each.kind === 'end');
      }
      expect(unreported).toEqual([]);
    }),
    { numRuns: 1_000 },
  );
});
