import type { Outbound } from './outbound.ts';

/**
 * Returns HTTP clients that send nothing while `mayAct` is false. They check each request, not each
 * operation. A process that froze in the middle of an operation sends none of its remaining
 * requests.
 */
export function fencedOutbound(outbound: Outbound, mayAct: () => boolean): Outbound {
  return { client: (options) => outbound.client({ ...options, mayAct }) };
}
