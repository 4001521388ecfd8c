import { readFileSync } from 'node:fs';

/** Bytes of a process in RAM: now, at most so far, and now without mapped files. NaN of a process that is gone. */
export function residentBytes(
  pid: number | undefined,
  field: 'VmRSS' | 'VmHWM' | 'RssAnon',
): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? Number.NaN) * 1024;
  } catch {
    return Number.NaN;
  }
}
