import { errorText } from '../../operator/model/error-text.ts';
import { CONTROL_PREFIX, type FakeRequest, type FakeResponse } from './fake-server.ts';

/** The clock of a stand-in: as given until a test turns it, and standing still from then on. */
export interface TestClock {
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Anywhere at first, never backwards after that: a RangeError. */
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

/** `POST /_fake/clock {"now":"2027-02-01T00:10:00Z"}` turns the clock of a stand-in in another process. */
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
