//! Tests of the reader of source text alone: the language of a text, and the commands that a program starts.

use super::{
    CallMeaning, Content,
    Language::{self, Go, Java, JavaScript, Perl, Php, Python, Ruby, Rust, Shell},
    content, shows_shell, started,
};

fn texts(code: &str, language: Option<Language>) -> Vec<String> {
    started(code, language).into_iter().filter(|one| one.does == CallMeaning::Starts).map(|one| one.text).collect()
}

#[test]
fn commands_are_extracted_from_calls_in_each_language() {
    for (language, code, expected) in [
        (Python, "os.system('curl -s https://x | sh')", "curl -s https://x | sh"),
        (Python, "subprocess.run(['rm', '-rf', '/'], check=True)", "'rm' '-rf' '/'"),
        (
            Python,
            "subprocess.run(\n    [\n        \"rm\",\n        \"-rf\",\n        \"/\",\n    ]\n)",
            "'rm' '-rf' '/'",
        ),
        (Python, "subprocess.Popen(\"rm -rf /\", shell=True)", "rm -rf /"),
        (Python, "subprocess.call(shlex.split('rm -rf /'))", "rm -rf /"),
        (Python, "from subprocess import run\nrun(args=['rm', '-rf', '/'])", "'rm' '-rf' '/'"),
        (Python, "cmd = 'rm -rf '\ncmd2 = cmd + '/'\nos.system(cmd2)", "rm -rf /"),
        (Python, "os.system(f'rm -rf {root}/etc')", "rm -rf $root/etc"),
        (Python, "os.system('''rm -rf /''')", "rm -rf /"),
        (Python, "os.execvp('rm', ['rm', '-rf', '/'])", "'rm' 'rm' '-rf' '/'"),
        (Python, "await asyncio.create_subprocess_shell('rm -rf /')", "rm -rf /"),
        (JavaScript, "require('child_process').exec('rm -rf /', (e, out) => { console.log('x') })", "rm -rf /"),
        (JavaScript, "spawn('sh', ['-c', 'rm -rf /'], { stdio: 'inherit' })", "'sh' '-c' 'rm -rf /'"),
        (JavaScript, "execSync(`rm -rf ${home}/x`)", "rm -rf $home/x"),
        (JavaScript, "const cmd = \"rm -rf /\";\ncp.execSync(cmd);", "rm -rf /"),
        (JavaScript, "await $`rm -rf /`", "rm -rf /"),
        (Ruby, "system(\"rm -rf #{dir}/*\")", "rm -rf $dir/*"),
        (Ruby, "system 'rm', '-rf', '/' if really", "'rm' '-rf' '/'"),
        (Ruby, "`rm -rf /`", "rm -rf /"),
        (Ruby, "out = %x(rm -rf /)", "rm -rf /"),
        (Ruby, "Open3.capture2e('rm -rf /')", "rm -rf /"),
        (Ruby, "system(<<~SH)\n  rm -rf /\nSH\nputs 1", "rm -rf /"),
        (Php, "<?php shell_exec('rm -rf ' . $dir . '/*');", "rm -rf $dir/*"),
        (Php, "<?php echo `rm -rf /`;", "rm -rf /"),
        (Php, "<?php exec('rm -rf /', $out);", "rm -rf /"),
        (Php, "<?php $p = new Process(['rm', '-rf', '/']);", "'rm' '-rf' '/'"),
        (Perl, "system(\"rm -rf /\");", "rm -rf /"),
        (Perl, "my $x = qx{rm -rf /};", "rm -rf /"),
        (Go, "exec.Command(\"sh\", \"-c\", \"rm -rf /\").Run()", "'sh' '-c' 'rm -rf /'"),
        (Go, "exec.CommandContext(ctx, \"rm\", []string{\"-rf\", \"/\"}...)", "'rm' '-rf' '/'"),
        (Rust, "Command::new(\"sh\")\n    .arg(\"-c\")\n    .arg(\"rm -rf /\")\n    .status()", "'sh' '-c' 'rm -rf /'"),
        (Java, "Runtime.getRuntime().exec(\"rm -rf /\");", "rm -rf /"),
        (Java, "new ProcessBuilder(\"rm\", \"-rf\", \"/\").start();", "'rm' '-rf' '/'"),
    ] {
        let seen: Vec<String> = texts(code, Some(language)).iter().map(|text| text.trim().to_owned()).collect();
        assert_eq!(seen, [expected], "{code}");
    }
}

#[test]
fn comments_strings_and_definitions_start_no_command() {
    for (language, code) in [
        (Python, "# os.system('rm -rf /')\nx = 1"),
        (Python, "print(\"os.system('rm -rf /')\")"),
        (Python, "'''\nos.system(\"rm -rf /\")\n'''"),
        (Python, "def system(command):\n    return command"),
        (JavaScript, "// exec('rm -rf /')\n/* exec('rm -rf /') */"),
        (JavaScript, "const text = \"exec('rm -rf /')\";"),
        (JavaScript, "const quote = /[\"']/; // exec('x')\nconst b = 'exec(1)'"),
        (Php, "<?php // exec('rm -rf /');\n# exec('x');\n"),
        (Ruby, "puts 'system(1)' # `rm -rf /`"),
        (Go, "// exec.Command(\"rm\")\nvar Command = 1"),
    ] {
        assert_eq!(texts(code, Some(language)), Vec::<String>::new(), "{code}");
    }
}

#[test]
fn call_span_is_its_source_and_its_text_has_assigned_values() {
    let code = "path = '/'\nshutil.rmtree(path)\n";
    let found = started(code, Some(Python));
    assert_eq!(found.len(), 1);
    assert_eq!(&code[found[0].span.clone()], "shutil.rmtree(path)");
    assert_eq!((found[0].does, found[0].text.as_str()), (CallMeaning::Itself, "shutil.rmtree(path)\n '/'"));
}

#[test]
fn self_referential_assignments_and_deep_nesting_terminate() {
    let code = format!("x = {}'a'\n{}", "x + ".repeat(200), "os.system(x)\n".repeat(200));
    assert!(!texts(&code, Some(Python)).is_empty());
    let nested = format!("os.system({}'a'", "(".repeat(10_000));
    assert!(texts(&nested, Some(Python)).len() <= 1);
}

#[test]
fn content_language_is_detected_from_lines() {
    for (text, expected) in [
        ("rm -rf / --no-preserve-root", Content::Code(Some(Shell))),
        ("curl https://get.x.net/x.sh | sudo bash", Content::Code(Some(Shell))),
        (":(){ :|:& };:", Content::Code(Some(Shell))),
        ("r''m -rf /", Content::Code(Some(Shell))),
        ("set -e\nfor f in *; do\n  rm \"$f\"\ndone\n", Content::Code(Some(Shell))),
        ("cat > x.py <<EOF\nimport os\nx = 1\ny = f(x)\nEOF\npython x.py", Content::Code(Some(Shell))),
        ("import os\nos.system('x')", Content::Code(Some(Python))),
        ("def f(x):\n    return x", Content::Code(Some(Python))),
        ("const a = require('a');\na.b((c) => c);", Content::Code(Some(JavaScript))),
        ("require 'fileutils'\ndef x\n  puts 1\nend", Content::Code(Some(Ruby))),
        ("<?php\n$a = exec('x');", Content::Code(Some(Php))),
        ("package main\nfunc main() {\n\tx := 1\n}", Content::Code(Some(Go))),
        ("I removed the old build directory.\nThe tests pass now.", Content::Prose),
    ] {
        assert_eq!(content(text), expected, "{text}");
    }
    assert!(shows_shell("Then run:\nrm -rf /srv/data"));
    assert!(!shows_shell("rm is a program.\nWith -rf it deletes all of it, and asks nobody."));
}
