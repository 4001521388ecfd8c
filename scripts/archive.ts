import { execFileSync } from 'node:child_process';

const LARGEST_BYTES = 256 * 1024 * 1024;

/**
 * Returns a `.tar.gz` of the named files in a directory, made by tar(1) and gzip(1). The same
 * content gives the same bytes at any time. Throws if a name is missing.
 */
export function archiveOf(directory: string, names: readonly string[]): Buffer {
  const same = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  const modes = '--mode=u=rwX,go=rX';
  const what = ['--create', ...same, modes, '--directory', directory, ...names];
  const tar = execFileSync('tar', what, { maxBuffer: LARGEST_BYTES });
  return execFileSync('gzip', ['--no-name', '-9'], { input: tar, maxBuffer: LARGEST_BYTES });
}
