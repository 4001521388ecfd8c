import type { Projected } from '../kubernetes/source.ts';
import { encodeJson, encodeTimeline } from './journal-text.ts';
import { type Span, spansAfter, spansBefore } from './timeline.ts';
import type { Tracked } from './timelines.ts';

/**
 * Brings a timeline that this process has kept together with what another one has written of it by the end `settled` of the
 * last closed window. Of what ended before `horizon` each may have forgotten another part, and neither counts. Gives
 * whether the journal has to be written anew.
 */
export function merge<T extends Projected, S>(
  own: Tracked<T, S>,
  written: Tracked<T, S>,
  { settled, horizon }: { readonly settled: number; readonly horizon: number },
): 'as written' | 'changed' {
  const { versionAt } = written;
  const spans = spansAfter(written.spans, horizon);
  const billed = written.billed && spansAfter(written.billed, horizon);
  own.spans = spansAfter(own.spans, horizon);
  own.billed = billed;
  if (encodeTimeline({ ...own, versionAt }) === encodeTimeline({ ...written, spans, billed })) {
    own.dirty = false;
    return 'as written';
  }
  if (written.versionAt > own.versionAt && (written.gone || !own.gone)) {
    // Its end may have been seen there, and not here yet.
    Object.assign(own, written, { spans, billed, dirty: false });
    return 'as written';
  }
  const closed = billed ?? spans;
  own.billed = sameBefore(own.spans, closed, settled) ? undefined : closed;
  return 'changed';
}

/** Whether both say the same of the time before `at`. Their states are equal, if at all, and never the same values. */
function sameBefore<S>(a: readonly Span<S>[], b: readonly Span<S>[], at: number): boolean {
  const text = (spans: readonly Span<S>[]): string =>
    encodeJson(spansBefore(spans, at).map(({ from, to, state }) => ({ from, to, state })));
  return text(a) === text(b);
}
