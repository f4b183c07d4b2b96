//! The items of a plan that are ticked off as work goes on: `- [ ]` and `- [x]`.

/// How many items there are, and how many are ticked off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checklist {
    /// Items that are ticked off.
    pub done: u32,
    /// All items.
    pub total: u32,
}

impl Checklist {
    /// Counts the items in a Markdown text. What is quoted in a fence is no item.
    pub fn read(text: &str) -> Checklist {
        let mut list = Checklist::default();
        let mut quoted = false;
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("```") || line.starts_with("~~~") {
                quoted = !quoted;
            }
            let bullet = ["- [", "* [", "+ ["].iter().find_map(|it| line.strip_prefix(it));
            let mark = bullet.filter(|_| !quoted).and_then(|rest| rest.get(..2));
            match mark {
                Some(" ]") => list.total += 1,
                Some("x]" | "X]") => {
                    list.total += 1;
                    list.done += 1;
                }
                _ => {}
            }
        }
        list
    }

    /// Whether there are items, and all of them are ticked off.
    pub fn is_complete(self) -> bool {
        self.total > 0 && self.done == self.total
    }
}

/// How many items are ticked off, and how many there are; a way in for the drills, which stand outside.
#[cfg(feature = "test-programs")]
pub fn ticked_off(text: &str) -> (u32, u32) {
    let list = Checklist::read(text);
    (list.done, list.total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_wherever_they_stand() {
        let text = "# Plan\n- [ ] one\n  - [x] inner\n* [X] two\n- [y] none\n- []\n[ ] none\n\
                    ```\n- [ ] quoted\n```\n- [";
        assert_eq!(Checklist::read(text), Checklist { done: 2, total: 3 });
        assert!(!Checklist::read(text).is_complete());
        assert!(Checklist::read("- [x] all").is_complete());
        assert!(!Checklist::read("nothing").is_complete());
    }
}
