import { errorText } from '../../operator/model/error-text.ts';
import { CONTROL_PREFIX, type FakeRequest, type FakeResponse } from './fake-server.ts';

/** The clock of a stand-in: the given one until a test turns it, and still from then on. */
export interface TestClock {
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Sets the time. The first time may be any; a later one must not go backwards: a RangeError. */
  readonly turnTo: (at: number) => void;
}

export function createTestClock(running: () => number = Date.now): TestClock {
  let turned: number | undefined;
  return {
    now: () => turned ?? running(),
    turnTo: (at) => {
      if (turned !== undefined && at < turned) {
        const [from, to] = [turned, at].map((time) => new Date(time).toISOString());
        throw new RangeError(`clock: cannot be turned back from ${from}: "${to}"`);
      }
      turned = at;
    },
  };
}

/**
 * Handles `POST /_fake/clock {"now":"2027-02-01T00:10:00Z"}`, which turns the clock of a stand-in
 * in another process.
 */
export function turnedBy(
  { method, path, body }: FakeRequest,
  sliceTo: (at: number) => void,
): FakeResponse | undefined {
  if (method !== 'POST' || path !== `${CONTROL_PREFIX}clock`) return undefined;
  const at = /^\s*\{\s*"now"\s*:\s*"([^"]+)"\s*\}\s*$/.exec(body)?.[1] ?? '';
  if (!Number.isFinite(Date.parse(at))) {
    return { status: 400, body: { message: `now: not a time: "${at}"` } };
  }
  try {
    sliceTo(Date.parse(at));
  } catch (error) {
    return { status: 400, body: { message: errorText(error) } };
  }
  return { status: 204 };
}
