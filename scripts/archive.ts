import { execFileSync } from 'node:child_process';

const LARGEST_BYTES = 256 * 1024 * 1024;

/**
 * A `.tar.gz` of what has these names in a directory, by tar(1) and gzip(1): the same content gives the same bytes, whenever
 * and by whomever it is made. Throws where a name is missing.
 */
export function archiveOf(directory: string, names: readonly string[]): Buffer {
  const same = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  const modes = '--mode=u=rwX,go=rX';
  const what = ['--create', ...same, modes, '--directory', directory, ...names];
  const tar = execFileSync('tar', what, { maxBuffer: LARGEST_BYTES });
  return execFileSync('gzip', ['--no-name', '-9'], { input: tar, maxBuffer: LARGEST_BYTES });
}
