import type { Request } from 'express';
import type { GapView } from './views.ts';

/** Milliseconds since the epoch as RFC 3339; undefined, which JSON leaves out, when not set. */
export function isoTime(ms: number): string;
export function isoTime(ms: number | undefined): string | undefined;
export function isoTime(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString().replace('.000Z', 'Z');
}

/** A duration as the earlier release spelled it: `1m0s`, `1h0m0s`, `10s`. */
export function goDuration(ms: number): string {
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = (ms / 1000) % 60;
  if (hours > 0) return `${hours}h${minutes}m${seconds}s`;
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`;
}

export function showGap({ source, scope, from, to, reason }: GapView) {
  return { source, scope, from: isoTime(from), to: isoTime(to), reason };
}

/** A parameter out of the path, decoded. */
export function pathParameter(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}
