import { mkdir } from 'node:fs/promises';
import { forgetProcess, livingProcess, rememberProcess } from '../processes/pid-file.ts';
import type { RunFiles } from './run-directory.ts';

/**
 * Makes the directory that of this process: one run at a time keeps its files there. Gives what ends that. Rejects, with the
 * `command` that would have begun, while another process runs there.
 */
export async function claimDirectory(
  { directory, runPid }: Pick<RunFiles, 'directory' | 'runPid'>,
  command: string,
): Promise<() => void> {
  const other = livingProcess(runPid);
  if (other !== undefined && other !== process.pid) {
    throw new Error(`${command}: ${directory}: process ${other} is running it; stop that first`);
  }
  await mkdir(directory, { recursive: true });
  rememberProcess(runPid, process.pid);
  return () => forgetProcess(runPid);
}
