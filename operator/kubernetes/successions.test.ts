import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { newestDateOf } from './api-dates.ts';
import type { ObjectEvent } from './list-and-watch.ts';
import { createRevisionClock } from './revision-clock.ts';
import { Successions } from './successions.ts';

const BEGUN = 1_700_000_000_250;
const WRITERS = ['syncer', 'kubelet', 'scheduler', 'kubectl', 'ancient-changes'] as const;

/** What a write does to the dates of an object, beside what it is about. */
const write = fc.record({
  object: fc.nat(3),
  kind: fc.constantFrom(
    ...([
      'dated',
      'dated',
      'dated',
      'undated',
      'merged',
      'renamed',
      'emptied',
      'restored',
    ] as const),
    ...(['taken over', 'deletion'] as const),
  ),
  writer: fc.constantFrom(...WRITERS),
  /** From the moment at which what it replaces was stored to its date. */
  waitMs: fc.oneof(fc.nat(900), fc.nat(5_000)),
  /** From its date to the moment at which it was stored: admission webhooks and a disk that is busy. */
  storingMs: fc.oneof(fc.nat(50), fc.nat(40_000)),
});
type Write = typeof write extends fc.Arbitrary<infer T> ? T : never;

/** Times of managedFields by their writer. */
type Dates = Readonly<Record<string, number>>;

interface Stored {
  readonly uid: string;
  readonly storedAt: number;
  readonly created: number;
  readonly deletedAt?: number;
  readonly dates: Dates;
}

const cut = (at: number): number => Math.floor(at / 1_000) * 1_000;

/** The versions of one object, in order. */
function versionsOf(uid: string, writes: readonly Write[]): readonly Stored[] {
  const versions: Stored[] = [];
  for (const { kind, writer, waitMs, storingMs } of writes) {
    const last = versions.at(-1);
    const dated = (last?.storedAt ?? BEGUN) + waitMs;
    const before = last?.dates ?? {};
    const next = {
      uid,
      storedAt: dated + storingMs,
      created: last?.created ?? cut(dated),
      dates: last === undefined ? { [writer]: cut(dated) } : datesAfter(kind, writer, dated),
    };
    const deletedAt = last?.deletedAt ?? (kind === 'deletion' ? cut(dated) : undefined);
    versions.push(deletedAt === undefined ? next : { ...next, deletedAt });

    function datesAfter(of: Write['kind'], by: string, at: number): Dates {
      const { [by]: own, ...others } = before;
      const [[oldest, time] = [by, cut(at)], ...rest] = Object.entries(before).toSorted(
        ([, a], [, b]) => a - b,
      );
      switch (of) {
        case 'undated':
        case 'deletion':
          return before;
        case 'merged':
          return { ...Object.fromEntries(rest), 'ancient-changes': time };
        case 'renamed':
          return { ...Object.fromEntries(rest), [`${oldest}, migrated`]: time };
        case 'emptied':
          return {};
        case 'restored':
          return versions[Math.floor(versions.length / 2)]?.dates ?? {};
        case 'taken over':
          return { [by]: cut(at) };
        default:
          return { ...others, [by]: Math.max(own ?? 0, cut(at)) };
      }
    }
  }
  return versions;
}

/** In the order in which an etcd has stored them, as a watch tells them. */
const history = fc.array(write, { minLength: 2, maxLength: 60 }).map((writes) =>
  [...Map.groupBy(writes, ({ object }) => object)]
    .flatMap(([object, its]) => versionsOf(`object-${object}`, its))
    .toSorted((a, b) => a.storedAt - b.storedAt)
    .map((stored, index) => ({ ...stored, version: String(1_000 + index) })),
);

function told({
  uid,
  version,
  created,
  deletedAt,
  dates,
}: Omit<Stored, 'storedAt'> & { readonly version: string }): ObjectEvent {
  const identity = { uid, namespace: 'a', name: uid, resourceVersion: version };
  const metadata = {
    ...identity,
    creationTimestamp: iso(created),
    ...(deletedAt !== undefined && {
      deletionTimestamp: iso(deletedAt + 30_000),
      deletionGracePeriodSeconds: 30,
    }),
    managedFields: Object.entries(dates).map(([manager, at]) => ({ manager, time: iso(at) })),
  };
  return { kind: 'object', deleted: false, object: { metadata }, identity };
}

function iso(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

describe('what the next write of an object says of the version before', () => {
  test('holds however slow writes are, and whatever is done to managedFields: no version is dated before it was stored, or after', () => {
    fc.assert(
      fc.property(history, (versions) => {
        const successions = new Successions();
        const clock = createRevisionClock();
        for (const one of versions) {
          const event = told(one);
          const from = newestDateOf(event.object);
          if (from !== undefined) clock.observe(one.version, { from });
          const stored = successions.follow(event);
          if (stored !== undefined) clock.observe(stored.version, { until: stored.until });
        }
        for (const { version, storedAt } of versions) {
          const { from, until } = clock.bracket(version);
          expect(from).toBeLessThanOrEqual(storedAt);
          expect(until).toBeGreaterThanOrEqual(storedAt);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  const created = cut(BEGUN);
  const pod = (version: string, dates: Dates, deletedAt?: number): ObjectEvent =>
    told({ uid: 'pod', version, created, dates, ...(deletedAt !== undefined && { deletedAt }) });

  test.each([
    ['a kubelet that takes it in the same second', { syncer: created, kubelet: created }, 1_000],
    ['a kubelet that takes it later', { syncer: created, kubelet: created + 4_000 }, 5_000],
    ['whoever wrote it before', { syncer: created + 2_000 }, 3_000],
  ])(
    'a pod was stored in the second of the next write at the latest: by %s',
    (_, after, within) => {
      const successions = new Successions();
      expect(successions.follow(pod('7', { syncer: created }))).toBeUndefined();
      expect(successions.follow(pod('9', after))).toEqual({
        version: '7',
        until: created + within,
      });
    },
  );

  test('a pod was stored in the second in which its deletion was asked for, whatever its grace', () => {
    const successions = new Successions();
    successions.follow(pod('7', { syncer: created }));
    const deleted = pod('9', { syncer: created }, created + 3_000);
    expect(successions.follow(deleted)).toEqual({ version: '7', until: created + 4_000 });
    expect(newestDateOf(deleted.object)).toBe(created + 3_000);
  });

  test.each([
    ['a write that nothing dates, such as a binding', { syncer: created, kubelet: created }],
    ['entries that the API server has merged', { 'ancient-changes': created, kubelet: created }],
    ['dates that a client has taken away', {}],
    [
      'a date that a client has made up',
      { syncer: created, kubelet: created, me: created - 9_000 },
    ],
  ])('nothing is said by %s', (_, after) => {
    const successions = new Successions();
    successions.follow(pod('7', { syncer: created, kubelet: created }));
    expect(successions.follow(pod('9', after))).toBeUndefined();
  });

  test('an object that was made again under its name is another one', () => {
    const successions = new Successions();
    const first = pod('7', { syncer: created });
    successions.follow(first);
    successions.follow({ ...first, deleted: true });
    expect(successions.follow(pod('11', { syncer: created + 60_000 }))).toBeUndefined();
  });
});
