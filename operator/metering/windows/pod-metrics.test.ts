import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Connection } from '../../kubernetes/connection.ts';
import { createPodMetricsReader, ItemScanner, type PodReading } from './pod-metrics.ts';

const signal = new AbortController().signal;

function scan(text: string, cuts: readonly number[]): { items: unknown[]; list: unknown } {
  const items: unknown[] = [];
  const scanner = new ItemScanner((item) => items.push(item));
  const bounds = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].toSorted(
    (a, b) => a - b,
  );
  for (const [index, end] of bounds.entries()) {
    if (index > 0) scanner.push(text.slice(bounds[index - 1], end));
  }
  return { items, list: scanner.end() };
}

describe('the items of a list', () => {
  test('are the same wherever the stream is cut', () => {
    const items = fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { maxLength: 5 });
    fc.assert(
      fc.property(items, fc.array(fc.nat()), fc.boolean(), (list, cuts, pretty) => {
        const complete = { kind: 'PodMetricsList', metadata: { continue: '[{"' }, items: list };
        const text = JSON.stringify(complete, null, pretty ? 2 : 0);
        const scanned = scan(text, cuts);
        expect(scanned.items).toEqual(JSON.parse(JSON.stringify(list)));
        expect(scanned.list).toEqual({ ...complete, items: [] });
      }),
    );
  });

  test.each(['', '{"items":[{"a":1}', 'not found', '{"kind":"Status"}', '[1,2]', '{"items":[}]}'])(
    'are not found in %j',
    (text) => {
      expect(scan(text, []).list).toBeUndefined();
    },
  );

  test('of an empty list may be null', () => {
    expect(scan('{"metadata":{},"items":null}', []).list).toEqual({ metadata: {}, items: null });
  });

  test('are in memory one at a time, and one without an end is refused', () => {
    const scanner = new ItemScanner(() => undefined);
    scanner.push('{"items":[{"a":"');
    expect(() => {
      for (let megabyte = 0; megabyte < 8; megabyte += 1) scanner.push('x'.repeat(1024 * 1024));
    }).toThrow('an item is too large');
  });
});

describe('pod metrics', () => {
  const item = (name: string, ...containers: (readonly [string, string])[]) => ({
    metadata: { name, namespace: 'tenant-a' },
    containers: containers.map(([cpu, memory]) => ({ name: 'c', usage: { cpu, memory } })),
  });

  /** A metrics API that answers each request with the next of these texts. */
  function answering(...answers: readonly string[]) {
    const queries: unknown[] = [];
    const left = [...answers];
    const connection: Pick<Connection, 'bytes'> = {
      bytes: async (_path, { query }) => {
        queries.push(query?.['continue']);
        const text = left.shift() ?? '';
        async function* chunks() {
          yield Buffer.from(text.slice(0, 20));
          yield Buffer.from(text.slice(20));
        }
        return { kind: 'ok', chunks: chunks() };
      },
    };
    return { connection, queries };
  }

  async function read(connection: Pick<Connection, 'bytes'>) {
    const readings: PodReading[] = [];
    const outcome = await createPodMetricsReader(connection).read((one) => {
      readings.push(one);
    }, signal);
    return { outcome, readings };
  }

  test('C01: are the sum over the containers, in whatever form the numbers come', async () => {
    const list = { items: [item('p', ['250m', '512Mi'], ['123456789n', '1048576Ki'])] };
    const { outcome, readings } = await read(answering(JSON.stringify(list)).connection);
    expect(outcome).toEqual({ kind: 'read' });
    expect(readings).toEqual([
      { kind: 'usage', namespace: 'tenant-a', name: 'p', cpu: 373456789, memory: 1610612736 },
    ]);
  });

  test('are read page by page where the server pages', async () => {
    const first = { metadata: { continue: 'next' }, items: [item('p', ['1', '1'])] };
    const second = { metadata: {}, items: [item('q', ['1', '1'])] };
    const api = answering(JSON.stringify(first), JSON.stringify(second));
    const { readings } = await read(api.connection);
    expect(readings).toHaveLength(2);
    expect(api.queries).toEqual([undefined, 'next']);
  });

  test('that are no quantities name the pod and cost nobody else', async () => {
    const list = { items: [item('p', ['1x', '1']), item('q', ['1', '1'])] };
    const { readings } = await read(answering(JSON.stringify(list)).connection);
    expect(readings[0]).toEqual({
      kind: 'malformed',
      problem: 'not a quantity: usage of pod tenant-a/p: {"cpu":"1x","memory":"1"}',
    });
    expect(readings[1]).toMatchObject({ kind: 'usage', name: 'q' });
  });

  test('that cannot be had are a failure with its reason, never an empty reading', async () => {
    const status = { kind: 'status', code: 503, reason: '', message: 'no endpoints' } as const;
    expect((await read({ bytes: async () => status })).outcome).toEqual({
      kind: 'failed',
      reason: 'HTTP 503: no endpoints',
    });
    expect((await read(answering('<html>').connection)).outcome).toEqual({
      kind: 'failed',
      reason: 'the answer is not a Kubernetes list',
    });
    const cut: Pick<Connection, 'bytes'> = {
      bytes: async () => ({
        kind: 'ok',
        chunks: (async function* () {
          yield Buffer.from('{"items":[');
          throw new Error('other side closed');
        })(),
      }),
    };
    expect((await read(cut)).outcome).toEqual({ kind: 'failed', reason: 'other side closed' });
  });
});
