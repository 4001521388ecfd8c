import type { Logger } from '../logger.ts';

/** A logger that records its lines as `level message`. */
export function createMemoryLogger(): Logger & { readonly lines: readonly string[] } {
  const lines: string[] = [];
  return {
    lines,
    debug: (message) => void lines.push(`debug ${message}`),
    info: (message) => void lines.push(`info ${message}`),
    warn: (message) => void lines.push(`warn ${message}`),
    error: (message) => void lines.push(`error ${message}`),
  };
}
