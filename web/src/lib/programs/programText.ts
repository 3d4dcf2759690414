// The text of a program as the editor sees it: its settings, ready examples, and where mistakes are. Only the server
// decides whether a text is a program.

import type { Language, TestReport } from '../api/programs';

/** The settings in the comments before the first line of code (`# type: access`). */
export function settingsOf(text: string): Map<string, string> {
  const settings = new Map<string, string>();
  for (const raw of text.split('\n')) {
    const line = raw.trim();
    if (line === '') continue;
    if (!line.startsWith('#')) break;
    const [, name, value] = /^#\s*([a-z_-]+):(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) settings.set(name, value.trim());
  }
  return settings;
}

/** The code alone. */
export function withoutComments(text: string): string {
  return text
    .split('\n')
    .filter((line) => !line.trimStart().startsWith('#'))
    .join('\n')
    .trim();
}

/** Sample lines as one text; a newline inside a line becomes `\n`, as a program reads it. */
export function sampleText(lines: readonly string[]): string {
  return lines.map((line) => line.replaceAll('\r\n', '\n').replaceAll('\n', '\\n')).join('\n');
}

/** The lines of a text; an empty last line is not counted. */
export function sampleLines(text: string): string[] {
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  return lines;
}

/** A mistake, and the lines it is in, from 1. */
export interface Mark {
  programLine: number | null;
  inputLine: number | null;
  message: string;
}

/** The mistakes that a test found. */
export function marksOf(report: TestReport): Mark[] {
  return report.faults.map((fault) => ({ programLine: fault.program_line, inputLine: fault.input_line, message: fault.message }));
}

/** The messages of each line, for the margin beside a text. */
export function byLine(marks: readonly Mark[], line: (mark: Mark) => number | null): Map<number, string> {
  const found = new Map<number, string>();
  for (const mark of marks) {
    const at = line(mark);
    if (at !== null) found.set(at, found.has(at) ? `${found.get(at)}\n${mark.message}` : mark.message);
  }
  return found;
}

/** Where a line of a text begins and ends, to select it; null if the text has no such line. */
export function lineRange(text: string, line: number): { from: number; to: number } | null {
  let from = 0;
  for (let at = 1; at < line; at++) {
    const end = text.indexOf('\n', from);
    if (end < 0) return null;
    from = end + 1;
  }
  const end = text.indexOf('\n', from);
  return { from, to: end < 0 ? text.length : end };
}

export interface Example {
  name: string;
  title: string;
  language: Language;
  text: string;
}

/** Programs to start from; the first is the one of the empty list. */
export const EXAMPLES: readonly Example[] = [
  {
    name: 'access-status',
    title: 'Status classes of access logs',
    language: 'awk',
    text: `# Lines and bytes of each class of HTTP status.
# type: access
# bucket: 10s
# fields: status bytes
NR == 1 { next }                # the names of the columns
{
    class = substr($1, 1, 1) "xx"
    lines[class]++
    bytes[class] += $2
}
END {
    for (class in lines)
        print "class=" class, "lines=" lines[class], "bytes=" bytes[class]
}
`,
  },
  {
    name: 'errors-by-host',
    title: 'Errors by host',
    language: 'awk',
    text: `# Errors of each host, and the application that has most of them.
# filter: _level:in(error,critical,alert,emerg)
# bucket: 10s
# fields: hostname app_name
NR == 1 { next }
{
    errors[$1]++
    count = ++pairs[$1, $2]
    if (count > most[$1]) {
        most[$1] = count
        worst[$1] = $2
    }
}
END {
    for (host in errors)
        print "hostname=\\"" host "\\" errors=" errors[host], "worst_app=\\"" worst[host] "\\" worst_errors=" most[host]
}
`,
  },
  {
    name: 'logins-by-user',
    title: 'Logins by user',
    language: 'awk',
    text: `# Logins by SSH: accepted and refused ones of each user, and from how many addresses.
# filter: app_name:sshd
# bucket: 1m
function word_behind(name,    i) {
    for (i = 1; i < NF; i++)
        if ($i == name)
            return $(i + 1)
    return ""
}
/ (Accepted|Failed) [a-z]+ for / {
    user = word_behind("for")
    if (user == "invalid")
        user = word_behind("user")
    address = word_behind("from")
    users[user]
    if (/ Accepted /)
        accepted[user]++
    else
        failed[user]++
    if (!((user, address) in seen)) {
        seen[user, address]
        addresses[user]++
    }
}
END {
    for (user in users)
        printf "{\\"user\\":\\"%s\\",\\"accepted\\":%d,\\"failed\\":%d,\\"addresses\\":%d}\\n",
            escape(user), accepted[user], failed[user], addresses[user]
}
function escape(text) {
    gsub(/[\\\\"]/, "\\\\\\\\&", text)
    return text
}
`,
  },
  {
    name: 'status-counts',
    title: 'Lines by status, in LogsQL',
    language: 'logsql',
    text: `# Lines of each HTTP status.
# bucket: 10s
_type:access | stats by (status) count() lines
`,
  },
];
