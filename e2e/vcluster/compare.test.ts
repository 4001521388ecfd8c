import { expect, test } from 'vitest';
import { type Decimal, parseDecimal } from '../../operator/model/decimal.ts';
import { compare, type Explained, type Stated } from './compare.ts';
import type { Due } from './truth.ts';

const HOUR = 3_600_000;
const STRETCH = { from: 0, to: 2 * HOUR };

function due(uid: string, given: Partial<Due> = {}): Due {
  return {
    metric: 'tenant_cpu_core_hours',
    namespace: 'team-red',
    uid,
    name: uid,
    from: 0,
    to: HOUR,
    rate: 2,
    undated: 0,
    ...given,
  };
}

function bill(uid: string, quantity: string): Explained {
  const event = {
    id: uid,
    tenant: 'tenant-team-red-red',
    metric: 'tenant_cpu_core_hours',
    quantity: decimal(quantity),
    window_start: '',
    window_end: '',
    recorded_at: '',
    dimensions: { tenant_cluster: 'tenant-team-red-red' },
  };
  return { event, objects: [{ uid, quantity: Number(quantity) }] };
}

function decimal(text: string): Decimal {
  const parsed = parseDecimal(text);
  if (parsed === undefined) throw new RangeError(`no decimal: "${text}"`);
  return parsed;
}

function stated(explained: readonly Explained[], unattributed: readonly string[] = []): Stated {
  return { stretch: STRETCH, explained, unattributed };
}

test('a bill that is off, or lacks a pod, or is to nobody, counts as right', () => {
  const dues = [due('a'), due('b', { from: HOUR, to: undefined })];
  const right = compare({ dues, unknown: [] }, stated([bill('a', '2'), bill('b', '2')]));
  expect(right.figures).toEqual([
    {
      tenant: 'team-red',
      metric: 'tenant_cpu_core_hours',
      truth: 4,
      billed: 4,
      relative_error: 0,
      beyond_arrival: 0,
    },
  ]);
  expect(right.unlisted).toEqual([]);

  const off = compare({ dues, unknown: [] }, stated([bill('a', '2'), bill('b', '2.004')]));
  expect(off.figures[0]?.relative_error).toBeCloseTo(0.001, 9);
  expect(off.figures[0]?.beyond_arrival).toBe(off.figures[0]?.relative_error);
  expect(off.figures[0]?.worst).toBe('b: +0.004000000');

  const lacking = compare({ dues, unknown: ['team-red/c'] }, stated([bill('a', '4')]));
  expect(lacking.figures[0]?.relative_error).toBe(0);
  expect(lacking.unlisted).toEqual(['team-red/c', 'team-red/b']);

  const invented = compare({ dues: [], unknown: [] }, stated([bill('x', '1')]));
  expect(invented.figures[0]?.relative_error).toBe(Number.POSITIVE_INFINITY);
});

test('what a syncer makes after its tenant cluster was uninstalled is missed although it is listed', () => {
  const instance = due('red', { metric: 'tenant_instance_hours', rate: 1 });
  const leftover = due('late', { from: HOUR + 1, to: HOUR + 500 });
  const truth = { dues: [instance, due('a'), leftover], unknown: [] };
  const listed = compare(truth, stated([bill('a', '2')], ['team-red/late', 'team-red/a']));
  const cpu = listed.figures.find(({ metric }) => metric === 'tenant_cpu_core_hours');
  expect(cpu?.truth).toBe(2);
  expect(listed.unlisted).toEqual([]);
  expect(compare(truth, stated([bill('a', '2')])).unlisted).toEqual(['team-red/late']);
});

test('what has a time in the API is forgiven an arrival', () => {
  const given = { to: 1000 * 100, rate: 1 } as const;
  const late = stated([bill('a', '0.027777778'), bill('b', '0.027837778')]);
  const errorOf = (undated: Due['undated']): number | undefined => {
    const dues = [due('a', given), due('b', { ...given, undated })];
    return compare({ dues, unknown: [] }, late).figures[0]?.beyond_arrival;
  };
  // One is billed 216 ms too long in 200 s.
  expect(errorOf(0)).toBeCloseTo(0.00108, 5);
  expect(errorOf(1)).toBeCloseTo(0.00058, 5);
  expect(errorOf(2)).toBeCloseTo(0.00008, 5);
});
