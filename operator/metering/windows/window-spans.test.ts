import { expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster } from '../meters/testing/objects.ts';
import type { TraceSpan, SpanAttributes, Tracer } from '../../telemetry/tracer.ts';
import { clockAt, eventsOf, pass, running, startProcess } from './testing/harness.ts';

interface EndedSpan {
  readonly name: string;
  readonly parent?: string;
  readonly attributes: SpanAttributes;
  readonly problem?: string;
}

/** Records spans in the order in which they end. */
function recorder(): { readonly tracer: Tracer; readonly spans: readonly EndedSpan[] } {
  const spans: EndedSpan[] = [];
  const begun = (name: string, given: SpanAttributes, inside: { parent?: string }): TraceSpan => ({
    child: (child, attributes = {}) => begun(child, attributes, { parent: name }),
    end: (attributes = {}, problem) => {
      spans.push({ name, ...inside, attributes: { ...given, ...attributes }, problem });
    },
  });
  return { tracer: { begin: (name, given = {}) => begun(name, given, {}) }, spans };
}

test('a window that is closed, or refused by the ledger, has a span with its append', async () => {
  const clock = clockAt(-20);
  const memory = createMemoryLedger();
  let isDamaged = false;
  const ledger: Ledger = {
    ...memory,
    append: async (batch) =>
      isDamaged
        ? { kind: 'failed', cause: 'corrupt', message: 'a broken segment' }
        : memory.append(batch),
  };
  const { tracer, spans } = recorder();
  const process = await startProcess({ ledger, clock, objects: { pods: [running] }, tracer });
  process.discover([cluster('a')]);
  await pass(clock, 90);
  const events = await eventsOf(memory);
  expect(events.length).toBeGreaterThan(0);
  const ends = [...new Set(events.map(({ window_end }) => new Date(window_end).toISOString()))];
  const closed = spans.filter(({ name }) => name === 'window');
  expect(ends).toContain(closed.at(-1)?.attributes['end']);
  const appended = spans.filter(({ name }) => name === 'append');
  expect(appended.map(({ parent }) => parent)).toEqual(closed.map(() => 'window'));
  const counts = appended.map(({ attributes }) => Number(attributes['events']));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(events.length);
  isDamaged = true;
  await pass(clock, 90);
  expect(await process.ended).toMatchObject({ kind: 'ledger' });
  expect(spans.slice(-2)).toMatchObject([
    { name: 'append', problem: 'a broken segment' },
    { name: 'window' },
  ]);
});
