import type { Outbound } from './outbound.ts';

/**
 * HTTP clients that send nothing while `mayAct` is false. Each request is checked, not each operation: a process that
 * was frozen in the middle of an operation of many requests sends none of those that are left.
 */
export function fencedOutbound(outbound: Outbound, mayAct: () => boolean): Outbound {
  return { client: (options) => outbound.client({ ...options, mayAct }) };
}
